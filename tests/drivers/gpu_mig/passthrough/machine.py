"""A node whose simulated GPUs have PCI functions with an IOMMU, and the driver with passthrough on."""

from pathlib import Path

from tests.drivers.gpu_mig.nodes import GpuHarness
from tests.drivers.gpu_mig.passthrough.kernel import FakeKernel, PciTree

GPU = "0000:07:00.0"
AUDIO = "0000:07:00.1"
DEVICE = "gpu-0000-07-00-0"
MACHINE = f"{DEVICE}-vfio"


class PassthroughHarness(GpuHarness):
    """`GpuHarness` with a fake kernel. A GPU without NVIDIA's driver is unknown to the simulated NVML."""

    def __init__(self, folder: Path, *models: str, settings: str = "", mig: bool = False) -> None:
        root = folder / "host"
        for name in ("dev", "proc"):
            (root / name).mkdir(parents=True)
        self.root, self.tree = root, PciTree(root / "sys")
        self.tree.add(GPU, 17, "nvidia")
        self.tree.add(AUDIO, 17, "snd_hda_intel", pci_class="0x040300")
        paths = f"{{sysfs: {root / 'sys'}, proc: {root / 'proc'}, dev: {root / 'dev'}}}"
        text = f"{{passthrough: true, host: {paths}, {settings or 'mode: dynamic'}}}"
        self.pci = self.kernel = FakeKernel(root / "sys", self._change)
        super().__init__(folder, *(models or ("h100-80",)), settings=text, mig=mig)

    def _change(self, address: str, driver: str | None) -> None:
        if address != GPU:
            return
        gpu = self.store_gpu
        if self.tree.driver(address) == "nvidia":
            # A real unbind blocks until the last process closes the GPU.
            assert self.driver_hardware._last_event is None, "NVML is open while the GPU is unbound"
            self.cards.remove(gpu)
        elif driver == "nvidia":
            self.cards.reset(gpu)

    @property
    def store_gpu(self) -> str:
        """The UUID of the first GPU, even while NVML does not know it."""
        with self.store.change() as state:
            return state.gpus[0].uuid

    def open_node(self, path: str, pid: int = 812, name: str = "nvidia-persiste") -> None:
        """A process that has a device node open."""
        folder = self.root / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(name + "\n")
        (folder / "fd/3").symlink_to(path)

    def drivers(self) -> tuple[str | None, str | None]:
        """The drivers of the GPU and of its audio function."""
        return self.tree.driver(GPU), self.tree.driver(AUDIO)
