"""The contract of `GpuHardware` on the simulator."""

from collections.abc import Sequence

import pytest

from dradriver_gpu_mig.card import EventKind, Fabric, Process, RecoveryAction, Virtualization
from dradriver_gpu_mig.card.simulator import CATALOG, SimulatedGpus
from tests.drivers.gpu_mig.card_suite import CardSuite, Reading, ReadingSuite, read


class SimulatedBench:
    def __init__(self, *cards: str, mig: bool = True) -> None:
        self.hardware = SimulatedGpus(cards, mig=mig)
        self.hardware.open()
        self._uuids = [gpu.uuid for gpu in self.hardware.gpus()]

    def report_error(
        self, gpu: int, kind: EventKind, *, xid: int | None = None, gpu_instance: int | None = None
    ) -> None:
        self.hardware.report_error(self._uuids[gpu], kind, xid=xid, gpu_instance=gpu_instance)

    def lose(self, gpu: int) -> None:
        self.hardware.lose(self._uuids[gpu])

    def reset(self, gpu: int) -> None:
        self.hardware.reset(self._uuids[gpu])

    def remove(self, gpu: int) -> None:
        self.hardware.remove(self._uuids[gpu])

    def fail_calls(self, gpu: int, code: int) -> None:
        self.hardware.fail_calls(self._uuids[gpu], code)

    def fail_placements(self, gpu: int, profile: int, code: int) -> None:
        self.hardware.fail_placements(self._uuids[gpu], profile, code)

    def set_virtualization(self, gpu: int, mode: Virtualization) -> None:
        self.hardware.set_virtualization(self._uuids[gpu], mode)

    def set_memory_and_fabric(self, gpu: int, addressing_mode: str, fabric: Fabric | None) -> None:
        self.hardware.set_memory_and_fabric(self._uuids[gpu], addressing_mode, fabric)

    def set_recovery_action(self, gpu: int, action: RecoveryAction | None) -> None:
        self.hardware.set_recovery_action(self._uuids[gpu], action)

    def set_processes(self, gpu: int, processes: Sequence[Process]) -> None:
        self.hardware.set_processes(self._uuids[gpu], processes)


@pytest.fixture
def benches() -> type[SimulatedBench]:
    return SimulatedBench


@pytest.fixture(params=CATALOG)
def reading(request: pytest.FixtureRequest) -> Reading:
    return read(SimulatedBench(request.param, request.param).hardware)


class TestReading(ReadingSuite):
    pass


class TestCards(CardSuite):
    pass
