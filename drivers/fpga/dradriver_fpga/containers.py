"""CDI edits for a device."""

import dradriver as dra
from dradriver_fpga.offer import Offer

__all__ = ["prepared"]


def prepared(offer: Offer) -> dra.PreparedDevice:
    """Return the device nodes, a variable with the device's content, and the same as metadata."""
    name = offer.name.upper().replace("-", "_")
    told = {
        "type": offer.kind.value,
        "interfaceID": offer.interface_id,
        "afuID": offer.afu_id,
        "bitstream": offer.bitstream,
    }
    told = {key: value for key, value in told.items() if value}
    edits = dra.ContainerEdits(
        {f"FPGA_{name}": offer.bitstream or offer.afu_id},
        [
            dra.DeviceNode(node.path, type="c", major=node.major, minor=node.minor, permissions="rw")
            for node in offer.nodes
        ],
    )
    return dra.PreparedDevice(edits, metadata=told, data=told)
