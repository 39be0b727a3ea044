"""The table has a step for every state, and a death at any write leaves nothing between two drivers."""

from itertools import product
from pathlib import Path

import pytest

from dradriver_gpu_mig.instances import RecordState
from dradriver_gpu_mig.passthrough.steps import STEPS, DesiredDriver, ObservedDriver, PassthroughStep
from tests.drivers.gpu_mig.passthrough.machine import MACHINE, PassthroughHarness

ON_HOST = ("nvidia", "snd_hda_intel")
PASSED = ("vfio-pci", "vfio-pci")
MOMENTS = (1, 3, 5, 7, 9, 11, 12)
"""Before each of the six writes (override, unbind and probe of two functions), and after the last."""


class DeathError(BaseException):
    """The process ends here."""


class Deadline:
    """Raises at the n-th moment before or after a write."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise DeathError


def test_the_table_has_a_step_for_every_state() -> None:
    assert set(STEPS) == set(product(DesiredDriver, [None, *RecordState], ObservedDriver))


def test_the_table_never_changes_a_gpu_without_a_record() -> None:
    harmless = {PassthroughStep.DONE, PassthroughStep.REJECT, PassthroughStep.RECORD_CREATING}
    assert {step for (_, state, _), step in STEPS.items() if state is None} <= harmless


@pytest.mark.parametrize("at", MOMENTS)
def test_a_process_that_dies_while_it_binds_is_reverted_or_continued(tmp_path: Path, at: int) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_device(MACHINE)
        node.kernel.on_write = Deadline(at)
        with pytest.raises(DeathError):
            node.prepare(claim)
        node.kernel.on_write = lambda: None
        node.restart()
        assert node.taints() == {}
        assert node.drivers() == ON_HOST
        assert node.records() == []
        node.prepare(claim)
        assert node.drivers() == PASSED


@pytest.mark.parametrize("at", MOMENTS)
def test_a_process_that_dies_while_it_returns_is_continued(tmp_path: Path, at: int) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        node.kernel.on_write = Deadline(at)
        with pytest.raises(DeathError):
            node.unprepare(claim)
        node.kernel.on_write = lambda: None
        node.restart()
        node.unprepare(claim)
        assert node.drivers() == ON_HOST
        assert node.records() == []
