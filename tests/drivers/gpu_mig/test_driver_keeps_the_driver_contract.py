"""`DriverContract` in every mode of the driver."""

from pathlib import Path

import pytest

from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import DriverContract, Harness
from dradriver_gpu_mig import GpuConfig, GpuDriver
from dradriver_gpu_mig.card import Placement, Virtualization
from dradriver_gpu_mig.card.simulator import GpuMemoryStore, SimulatedGpus
from dradriver_gpu_mig.configs import GpuSharing
from dradriver_gpu_mig.passthrough import PciBus
from tests.drivers.gpu_mig.passthrough.kernel import FakeKernel
from tests.drivers.gpu_mig.passthrough.machine import AUDIO, GPU, MACHINE


class OnCards(DriverContract):
    """Each test has cards of its own."""

    settings = ""
    models: tuple[str, ...] = ()
    mig = True
    virtualization = Virtualization.NONE
    instances: tuple[tuple[int, Placement], ...] = ()
    """Profile and placement of each instance that the first card has from the start."""
    pci: PciBus | None = None

    @pytest.fixture(autouse=True)
    def cards(self) -> None:
        self.store = GpuMemoryStore()
        hardware = self.make_hardware()
        hardware.open()
        gpu = hardware.gpus()[0].uuid
        hardware.set_virtualization(gpu, self.virtualization)
        for profile, placement in self.instances:
            hardware.create_compute_instance(gpu, hardware.create_gpu_instance(gpu, profile, placement))

    def make_hardware(self) -> SimulatedGpus:
        return SimulatedGpus(self.models, store=self.store, mig=self.mig)

    def make_driver(self) -> GpuDriver:
        return GpuDriver(self.settings, self.make_hardware(), self.pci)


class TestDynamic(OnCards):
    """Every place of every profile."""

    settings = "mode: dynamic"
    models = ("a30",)


class TestWhole(OnCards):
    """GPUs that are not divided, with settings of their own for each claim."""

    settings = "mode: whole"
    models = ("t4", "t4")
    configs = (GpuConfig(compute_mode="ExclusiveProcess"),)


class TestStatic(OnCards):
    """MIG devices that exist."""

    settings = "mode: static"
    models = ("a30",)
    instances = ((14, Placement(0, 1)), (5, Placement(2, 2)))


class TestShared(OnCards):
    """GPUs that several claims have at the same time."""

    settings = "{mode: whole, consumableShares: 2}"
    models = ("t4", "t4")


class TestSharedMig(OnCards):
    """MIG devices that several claims have at the same time, by memory."""

    settings = "{mode: dynamic, consumableShares: memory}"
    models = ("a30",)


class TestMps(OnCards):
    """GPUs with an MPS control daemon for each claim."""

    settings = "{mode: whole, mps: {}}"
    models = ("t4", "t4")
    configs = (GpuConfig(sharing=GpuSharing(strategy="MPS")),)


class TestSwitching(OnCards):
    """A GPU that is offered whole and divided."""

    settings = "{mode: dynamic, migSwitching: onDemand}"
    models = ("rtx-pro-6000",)
    mig = False


class TestVirtualGpu(OnCards):
    """A vGPU in a virtual machine."""

    settings = "{mode: dynamic, migSwitching: onDemand}"
    models = ("h100-80",)
    virtualization = Virtualization.VGPU
    instances = ((19, Placement(0, 1)), (14, Placement(2, 2)))


class TestPassthrough(OnCards):
    """A GPU that is offered to pods and to virtual machines; the claims pass it to a virtual machine."""

    models = ("t4",)

    @pytest.fixture(autouse=True)
    def kernel(self, tmp_path: Path) -> None:
        self.pci = kernel = FakeKernel(tmp_path / "sys")
        kernel.tree.add(GPU, 17, "nvidia")
        kernel.tree.add(AUDIO, 17, "snd_hda_intel", pci_class="0x040300")
        paths = f"{{sysfs: {tmp_path / 'sys'}, proc: {tmp_path}, dev: {tmp_path}}}"
        self.settings = f"{{mode: whole, passthrough: true, host: {paths}}}"

    @pytest.fixture
    def claim(self, harness: Harness) -> ResourceClaim:
        return harness.allocate_blindly(("node-1", MACHINE))
