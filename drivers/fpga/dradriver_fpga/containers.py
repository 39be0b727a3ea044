"""CDI edits for a device."""

import dradriver as dra
from dradriver_fpga.offer import FpgaDeviceKind, FpgaOffer

__all__ = ["make_prepared_device"]


def make_prepared_device(offer: FpgaOffer) -> dra.PreparedDevice:
    """Return the prepared device: its nodes, and its content as an environment variable and as metadata."""
    name = offer.name.upper().replace("-", "_")
    metadata = {
        "type": offer.kind.value,
        "interfaceID": offer.interface_id,
        "afuID": offer.afu_id,
        "bitstream": offer.bitstream,
    }
    metadata = {key: value for key, value in metadata.items() if value}
    edits = dra.ContainerEdits(
        {f"FPGA_{name}": offer.bitstream or offer.afu_id or _find_function(offer)},
        [
            dra.DeviceNode(node.path, type="c", major=node.major, minor=node.minor, permissions="rw")
            for node in offer.nodes
        ],
    )
    return dra.PreparedDevice(edits, metadata=metadata, data=metadata)


def _find_function(offer: FpgaOffer) -> str:
    """Return the PCI address by which OPAE opens a function that is bound to vfio-pci."""
    return offer.card.pci_address if offer.kind is FpgaDeviceKind.FUNCTION else ""
