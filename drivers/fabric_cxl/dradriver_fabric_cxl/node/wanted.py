"""What a claim wants of a device, from the data of the attachment and the claim's configuration. Pure."""

import dradriver as dra
from dradriver_fabric_cxl.attached import AttachedDevice, decode_handle
from dradriver_fabric_cxl.configs import MemoryConfig
from dradriver_fabric_cxl.node.errors import NoAttachedDataError
from dradriver_fabric_cxl.node.records import DeviceRecord

__all__ = ["make_record"]


def make_record(claim: str, device: dra.AllocatedDevice, boot: str) -> DeviceRecord:
    """Return the record of a device that is not usable yet.

    Args:
        claim: UID of the claim.
        device: the device of the claim.
        boot: ID of the current boot.

    Raises:
        NoAttachedDataError: the claim's status and handle have no valid data of the device.
    """
    attached = _read_attached(device)
    config = device.config(MemoryConfig) or MemoryConfig()
    return DeviceRecord(
        claim=claim,
        pool=device.pool,
        device=device.name,
        share=device.share_id,
        serial=attached.serial_number,
        boot=boot,
        mode=config.memory_mode if attached.bytes else None,
    )


def _read_attached(device: dra.AllocatedDevice) -> AttachedDevice:
    """Return the data of the attachment: from the handle if the controller has handed out the device."""
    name = f"device {device.pool}/{device.name}"
    if device.handle is not None:
        try:
            return decode_handle(device.handle, device.name)
        except ValueError as error:
            raise NoAttachedDataError(f"{name}: handle of the claim's allocation: {error}") from error
    if device.data is None:
        raise NoAttachedDataError(
            f"{name}: status.devices of the claim has no data: has the driver of the pool attached it?"
        )
    try:
        return AttachedDevice.parse(device.data)
    except ValueError as error:
        raise NoAttachedDataError(f"{name}: data in status.devices: {error}") from error
