"""A node with simulated cards, the driver on it, and controls of the cards."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from msgspec import structs

from dradriver import Config, Device, Pool, Quantity
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import Harness, device_request
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import GpuInstance, Placement
from dradriver_gpu_mig.card.simulator import GpuMemoryStore, SimulatedGpus
from dradriver_gpu_mig.instances import DeviceRecord, RecordStore
from dradriver_gpu_mig.passthrough import PciBus

DRIVER = "gpu.nvidia.com"


class GpuHarness(Harness):
    """`with GpuHarness(tmp_path) as node`: the driver, by default in dynamic mode on one A100-40."""

    pci: PciBus | None = None

    def __init__(self, folder: Path, *models: str, settings: str = "mode: dynamic", mig: bool = True) -> None:
        self.store = GpuMemoryStore()
        self.models = models or ("a100-40",)
        self.mig = mig
        self.cards: SimulatedGpus = self.hardware()
        self.cards.open()
        self.settings = settings
        super().__init__(lambda: GpuDriver(self.settings, self.hardware(), self.pci), folder)

    def hardware(self) -> SimulatedGpus:
        return SimulatedGpus(self.models, store=self.store, mig=self.mig)

    @property
    def driver_hardware(self) -> SimulatedGpus:
        """The cards as the driver's process has them now."""
        node = cast(GpuDriver, self.driver)._node
        assert node is not None
        return cast(SimulatedGpus, node.cards.hardware)

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
                (
                    self.get_profile_name(gpu.uuid, each),
                    each.placement.start,
                    self.count_compute_instances(gpu.uuid, each),
                )
                for each in self.cards.gpu_instances(gpu.uuid)
            ]
            for gpu in self.cards.gpus()
        }

    @property
    def first_gpu_instances(self) -> list[tuple[str, int, int]]:
        """What the first GPU is divided into."""
        return self.instances()[self.gpu]

    def get_profile_name(self, gpu: str, instance: GpuInstance) -> str:
        return next(each.name for each in self.cards.profiles(gpu) if each.id == instance.profile_id)

    def count_compute_instances(self, gpu: str, instance: GpuInstance) -> int:
        return len(self.cards.mig_devices(gpu, instance))

    def create_foreign_instance(self, get_profile_name: str, start: int) -> None:
        """Somebody makes a MIG device on the first GPU with nvidia-smi."""
        (found,) = (each for each in self.cards.profiles(self.gpu) if each.name == get_profile_name)
        instance = self.cards.create_gpu_instance(self.gpu, found.id, Placement(start, found.memory_slices))
        self.cards.create_compute_instance(self.gpu, instance)

    @property
    def record_store(self) -> RecordStore:
        node = cast(GpuDriver, self.driver)._node
        assert node is not None
        return node.record_store

    def records(self) -> list[DeviceRecord]:
        return self.record_store.all()

    def allocate_profile(self, get_profile_name: str = "") -> ResourceClaim:
        """A claim that the allocator gave a device of a profile."""
        expression = (
            f"device.attributes['{DRIVER}'].profile == '{get_profile_name}'" if get_profile_name else "true"
        )
        return self.allocate(device_request(DRIVER, expression))

    def allocate_share(
        self, device: str, config: Config | Sequence[Config] = (), **amounts: str
    ) -> ResourceClaim:
        """A claim with a share of this device, and amounts of its capacities, that nobody has decided."""
        return allocate_share(self, device, config, **amounts)

    def allocate_device(self, device: str, name: str = "") -> ResourceClaim:
        """A claim with this device, without a decision of the allocator."""
        return self.allocate_blindly(("node-1", device), name=name)


def allocate_share(
    node: Harness, device: str, config: Config | Sequence[Config] = (), **amounts: str
) -> ResourceClaim:
    """A claim with a share of this device, and amounts of its capacities, that nobody has decided."""
    claim = node.allocate_blindly(("node-1", device), config=config)
    allocation = claim.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    consumed = {name: Quantity(amount) for name, amount in amounts.items()}
    shared = structs.replace(result, share_id=str(uuid.uuid4()), consumed_capacity=consumed)
    devices = structs.replace(allocation.devices, results=[shared])
    status = structs.replace(claim.status, allocation=structs.replace(allocation, devices=devices))
    return structs.replace(claim, status=status)
