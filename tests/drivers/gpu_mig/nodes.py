"""A node with simulated cards, the driver on it, and the hand of whoever stands beside it."""

from pathlib import Path
from typing import cast

from dradriver import Device, Pool
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import Harness, device_request
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import GpuInstance, Placement
from dradriver_gpu_mig.card.simulator import MemoryStore, SimulatedHardware
from dradriver_gpu_mig.instances import Record, RecordStore

DRIVER = "gpu.nvidia.com"


class Cards(Harness):
    """`with Cards(tmp_path) as node`: the driver in dynamic mode on one A100-40, unless said otherwise."""

    def __init__(self, folder: Path, *models: str, settings: str = "mode: dynamic", mig: bool = True) -> None:
        self.store = MemoryStore()
        self.models = models or ("a100-40",)
        self.mig = mig
        self.cards: SimulatedHardware = self.hardware()
        self.cards.open()
        self.settings = settings
        super().__init__(lambda: GpuDriver(self.settings, self.hardware()), folder)

    def hardware(self) -> SimulatedHardware:
        return SimulatedHardware(self.models, store=self.store, mig=self.mig)

    @property
    def live(self) -> SimulatedHardware:
        """The cards as the driver's process has them now."""
        node = cast(GpuDriver, self.driver)._node
        assert node is not None
        return cast(SimulatedHardware, node.cards.hardware)

    @property
    def gpu(self) -> str:
        """The UUID of the first GPU."""
        return self.cards.gpus()[0].uuid

    @property
    def pool(self) -> Pool:
        (pool,) = self.discover()
        return pool

    @property
    def devices(self) -> dict[str, Device]:
        """What is offered, by name."""
        return {device.name: device for device in self.pool.devices}

    def taints(self) -> dict[str, set[tuple[str, str, str]]]:
        """The taints of those devices that have some."""
        found: dict[str, set[tuple[str, str, str]]] = {
            name: {(taint.key, taint.value, taint.effect) for taint in device.taints}
            for name, device in self.devices.items()
        }
        return {name: marks for name, marks in found.items() if marks}

    def instances(self) -> dict[str, list[tuple[str, int, int]]]:
        """What the GPUs are divided into: profile, start, and how many compute instances live there."""
        return {
            gpu.uuid: [
                (self.profile(gpu.uuid, each), each.placement.start, self.compute(gpu.uuid, each))
                for each in self.cards.gpu_instances(gpu.uuid)
            ]
            for gpu in self.cards.gpus()
        }

    @property
    def there(self) -> list[tuple[str, int, int]]:
        """What the first GPU is divided into."""
        return self.instances()[self.gpu]

    def profile(self, gpu: str, instance: GpuInstance) -> str:
        return next(each.name for each in self.cards.profiles(gpu) if each.id == instance.profile_id)

    def compute(self, gpu: str, instance: GpuInstance) -> int:
        return len(self.cards.compute_instances(gpu, instance.id))

    def by_hand(self, profile: str, start: int) -> None:
        """Somebody makes a MIG device on the first GPU with nvidia-smi."""
        (found,) = (each for each in self.cards.profiles(self.gpu) if each.name == profile)
        made = self.cards.create_gpu_instance(self.gpu, found.id, Placement(start, found.memory_slices))
        self.cards.create_compute_instance(self.gpu, made.id)

    @property
    def record_store(self) -> RecordStore:
        node = cast(GpuDriver, self.driver)._node
        assert node is not None
        return node.record_store

    def records(self) -> list[Record]:
        return self.record_store.all()

    def ask(self, profile: str = "") -> ResourceClaim:
        """A claim that the allocator gave a device of a profile."""
        expression = f"device.attributes['{DRIVER}'].profile == '{profile}'" if profile else "true"
        return self.allocate(device_request(DRIVER, expression))

    def take(self, device: str, name: str = "") -> ResourceClaim:
        """A claim that has this device, whoever allocated it."""
        return self.allocate_blindly(("node-1", device), name=name)
