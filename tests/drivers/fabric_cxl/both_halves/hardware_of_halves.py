"""The simulated fabric and the simulated hardware of its nodes, which both drivers share in a folder."""

from collections.abc import Sequence
from pathlib import Path

from dradriver_fabric_cxl.accelerator.simulator import AcceleratorFileStore, SimulatedAccelerators
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault, FabricState, SimulatedFabric
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore
from dradriver_fabric_cxl.simulation import (
    accelerator_file,
    claim_simulated_host,
    memory_file,
    open_fabric_store,
)


class HardwareOfHalves:
    """Shows the hardware, and lets it wait and fail.

    Attributes:
        simulation: folder of the simulated hardware.
        nodes: names of the nodes, which have hosts once their drivers have started.
    """

    def __init__(self, simulation: Path, nodes: Sequence[str]) -> None:
        self.simulation = simulation
        self.nodes = tuple(nodes)

    def fabric(self) -> FabricState:
        """Return the state of the fabric."""
        with open_fabric_store(self.simulation).change() as state:
            return state

    def hold(self, call: FabricCall) -> None:
        """Let the next task of a kind run until `release`."""
        SimulatedFabric(open_fabric_store(self.simulation)).fail(call, FabricFault.TASK_HANGS)

    def is_held(self) -> bool:
        """Return whether such a task runs."""
        return any(task.fault is FabricFault.TASK_HANGS for task in self.fabric().tasks.values())

    def release(self) -> None:
        """Let held tasks end."""
        with open_fabric_store(self.simulation).change() as state:
            for task in state.tasks.values():
                task.fault = None

    def fail_port(self) -> None:
        """Make the port fail to which the next connection is made, also at the second try."""
        self._fail_port(2)

    def fail_held_port(self) -> None:
        """Make the port fail to which a held task connects, also at the second try."""
        self._fail_port(1)
        with open_fabric_store(self.simulation).change() as state:
            for task in state.tasks.values():
                if not task.ended:
                    task.fault = FabricFault.PORT_FAILS

    def set_driver(self, *, has_driver: bool) -> None:
        """Load or unload the driver of accelerators on the nodes; without it, a node waits for it."""
        for host in self.hosts().values():
            accelerators = SimulatedAccelerators(AcceleratorFileStore(accelerator_file(self.simulation, host)))
            if not has_driver:
                accelerators.plug(0)  # the fabric does not change what is plugged in where it connects it
            for each in accelerators.devices():
                accelerators.set_driver(each.serial, has_driver=has_driver)

    def write_memory(self, node: str) -> None:
        """Write into the memory of a node, as programs do, so that a second clearing is visible."""
        with MemoryFileStore(memory_file(self.simulation, self.hosts()[node])).change() as state:
            for memdev in state.memdevs:
                memdev.cleared = 0

    def hosts(self) -> dict[str, str]:
        """Return the host of each node."""
        return {node: claim_simulated_host(self.simulation, node).id for node in self.nodes}

    def hardware(self) -> list[bytes]:
        """Return the state of all hardware, with its counters of changes."""
        hosts = self.hosts().values()
        files = [self.simulation / "fabric.json", *(memory_file(self.simulation, host) for host in hosts)]
        files += [accelerator_file(self.simulation, host) for host in hosts]
        return [path.read_bytes() for path in files if path.exists()]

    def connected(self) -> list[str]:
        """Return the host of each connection."""
        return [each.host for each in self.fabric().objects.values() if each.host]

    def is_empty(self) -> bool:
        """Return whether the manager has no chunk, no connection and no running task."""
        state = self.fabric()
        return not state.objects and all(task.ended for task in state.tasks.values())

    def _fail_port(self, times: int) -> None:
        fabric = SimulatedFabric(open_fabric_store(self.simulation))
        fabric.fail(FabricCall.CREATE_CONNECTION, FabricFault.PORT_FAILS, times=times)
