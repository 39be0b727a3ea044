"""Faults of simulated hardware, before and after a call takes effect."""

import pytest

from dradriver_gpu_mig.card import GpuError, Placement
from dradriver_gpu_mig.card.simulator import SimulatedGpus


class FailingOnce:
    """A hook that fails one call, the so-and-so-many-th of its name."""

    def __init__(self, call: str, moment: str, number: int) -> None:
        self._fault = call, moment
        self._left = number

    def __call__(self, call: str, moment: str) -> None:
        if (call, moment) == self._fault:
            self._left -= 1
            if self._left == 0:
                raise GpuError("the hardware is not well", call)


@pytest.mark.parametrize(("moment", "made"), [("before", 0), ("after", 1)])
def test_a_failed_call_took_effect_or_not(moment: str, made: int) -> None:
    """The caller cannot know it; only the hardware does."""
    hardware = SimulatedGpus(hook=FailingOnce("create_gpu_instance", moment, 1))
    hardware.open()
    (gpu,) = hardware.gpus()
    with pytest.raises(GpuError, match="not well"):
        hardware.create_gpu_instance(gpu.uuid, 9, Placement(0, 4))
    assert len(hardware.gpu_instances(gpu.uuid)) == made


def test_a_later_call_fails() -> None:
    hardware = SimulatedGpus(hook=FailingOnce("count", "before", 3))
    hardware.open()
    assert hardware.gpus() == hardware.gpus()
    with pytest.raises(GpuError):
        hardware.gpus()
    assert hardware.gpus()
