"""GPUs that are passed to virtual machines."""

import asyncio
from pathlib import Path

import dradriver as dra
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dradriver_gpu_mig.instances import DeviceRecord
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuOffer
from dradriver_gpu_mig.passthrough import make_passthrough_edits
from dradriver_gpu_mig.prepare.mig_mode import switch_mig

__all__ = ["PassthroughGpus"]


class PassthroughGpus:
    """Binds GPUs to vfio-pci, and returns them.

    Args:
        node: the cards and the records.
    """

    def __init__(self, node: GpuNode) -> None:
        self._node = node

    async def prepare(
        self, claim: dra.Claim, device: dra.AllocatedDevice, offer: GpuOffer
    ) -> dra.PreparedDevice:
        """Bind a GPU to vfio-pci, and return the device nodes for a virtual machine monitor.

        Args:
            claim: the claim.
            device: the device of the claim.
            offer: the device as it is offered now.

        Raises:
            DraError: the configuration is for another kind of device, the GPU is in use, or the kernel refuses.
        """
        if device.config(GpuConfig) is not None or device.config(MigDeviceConfig) is not None:
            raise dra.DraError(f"device {device.name}: a GPU for a virtual machine needs VfioDeviceConfig")
        config = device.config(VfioDeviceConfig) or VfioDeviceConfig()
        node, dev = self._node, Path(self._node.settings.host.dev)
        offer = await switch_mig(node, claim.uid, offer, enabled=False)
        gpu = offer.card.gpu
        await node.binder.bind(device.name, claim.uid, gpu, offer.card.profiles)
        edits = await asyncio.to_thread(make_passthrough_edits, node.pci, dev, gpu.pci_address, config.iommu)
        metadata = {"uuid": gpu.uuid, "pciBusID": gpu.pci_address}
        return dra.PreparedDevice(edits, metadata=metadata, data=metadata)

    async def unprepare(self, record: DeviceRecord, claim: str) -> None:  # noqa: ARG002 - as of other kinds
        """Return the GPU of a record to its driver.

        Args:
            record: the record.
            claim: UID of the claim, which is the only one.

        Raises:
            DraError: a virtual machine uses the GPU, or the kernel refuses a write.
        """
        await self._node.binder.release(record)
