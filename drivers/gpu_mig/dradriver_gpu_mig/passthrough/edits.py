"""Container edits for a passed GPU."""

from pathlib import Path

import dradriver as dra
from dradriver_gpu_mig.configs import IommuConfig
from dradriver_gpu_mig.passthrough.pci import PciBus

__all__ = ["has_iommufd", "make_passthrough_edits"]


def has_iommufd(dev: Path) -> bool:
    """Return whether the node has the IOMMU's newer interface, `/dev/iommu`. Blocking.

    Args:
        dev: the host's folder /dev, as this process sees it.
    """
    return (dev / "iommu").exists()


def make_passthrough_edits(pci: PciBus, dev: Path, address: str, config: IommuConfig) -> dra.ContainerEdits:
    """Return the device nodes of a GPU that is bound to vfio-pci. Blocking.

    Args:
        pci: the PCI functions.
        dev: the host's folder /dev, as this process sees it.
        address: PCI address of the GPU.
        config: the interface that the claim prefers.

    Raises:
        DraError: the kernel has no device of the GPU for the interface.

    Source:
        Linux, Documentation/driver-api/vfio.rst, "IOMMUFD and VFIO character device".
    """
    prefers_iommufd = config.backend_policy == "PreferIommuFD" and has_iommufd(dev)
    if prefers_iommufd:
        name = pci.find_vfio_device(address)
        if name is None:
            raise dra.DraError(f"GPU {address}: the kernel has no device of it below /dev/vfio/devices")
        path, api = f"/dev/vfio/devices/{name}", "/dev/iommu"
    else:
        group = pci.read_group(address)
        if group is None:
            raise dra.DraError(f"GPU {address}: it has no IOMMU group")
        path, api = f"/dev/vfio/{group.number}", "/dev/vfio/vfio"
    paths = [path, api] if config.enable_api_device else [path]
    return dra.ContainerEdits(
        # By this variable, a container can request devices from the toolkit's runtime. `void` requests none.
        env={"NVIDIA_VISIBLE_DEVICES": "void"},
        device_nodes=[dra.DeviceNode(each, permissions="rwm") for each in paths],
    )
