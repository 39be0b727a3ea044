"""PCI root and NUMA node of a GPU come from sysfs, because NVML does not report them."""

from collections.abc import Callable
from pathlib import Path

from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.shim.node import NodeFiles

Shim = Callable[..., tuple[NvmlGpus, object]]


def test_root_and_numa_node_are_those_of_the_pci_device(shim: Shim, tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    node = NodeFiles(tmp_path / "node", gpus=2)
    hardware, _ = shim("a100-40", "a100-40", sysfs=node.host.sysfs)
    assert [(gpu.pci_address, gpu.pcie_root, gpu.numa_node) for gpu in hardware.gpus()] == [
        ("0000:07:00.0", "pci0000:00", 0),
        ("0000:0f:00.0", "pci0000:01", 1),
    ]


def test_a_gpu_that_sysfs_does_not_know_has_neither(shim: Shim, tmp_path: Path) -> None:
    hardware, _ = shim("a100-40", sysfs=tmp_path)
    (gpu,) = hardware.gpus()
    assert (gpu.pcie_root, gpu.numa_node) == ("", None)
