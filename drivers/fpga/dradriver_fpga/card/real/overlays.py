"""Programs a region by a device tree overlay: the kernel closes the region's bridges, programs, and opens them.

| step | if the process dies right after it |
|---|---|
| the old overlay is removed: the kernel closes the bridges | the next programming does the next step |
| the firmware file and the overlay are written to the firmware folder | the next programming replaces both |
| the overlay's folder is made in configfs | the next programming removes it first |
| the overlay's name is written to `path`: the kernel programs the region | the kernel ends the programming |
| both files are removed | nothing is left to do |

The overlay stays applied as long as the region has its content, because its removal closes the bridges.

Source:
    Documentation/devicetree/bindings/fpga/fpga-region.yaml; drivers/fpga/of-fpga-region.c; of the kernels of
    AMD and Altera, drivers/of/configfs.c; the Devicetree Specification, chapter 5 (flattened format).
"""

import os
import struct
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import FpgaError
from dradriver_fpga.card.real.mechanisms import Kernel, make_error
from dradriver_fpga.card.real.sysfs import SysfsDevice, list_matches, read
from dradriver_fpga.card.verified_files import VerifiedFile, create_private

__all__ = ["find_tree_path", "has_bridges", "make_overlay", "program_by_overlay"]

_TREE: Final = "/firmware/devicetree/base/"
_APPLIED: Final = "applied"
_BEGIN_NODE, _END_NODE, _PROPERTY, _END = 1, 2, 3, 9
_HEADER: Final = struct.Struct(">10I")
_MAGIC, _VERSION, _COMPATIBLE = 0xD00DFEED, 17, 16


def find_tree_path(region: SysfsDevice) -> str:
    """Return the path of a region's node in the device tree; "" if it has no node."""
    before, found, path = str((region.owner / "of_node").resolve()).rpartition(_TREE)
    return f"/{path}" if before and found else ""


def has_bridges(region: SysfsDevice) -> bool:
    """Return whether bridges must be closed while the region is programmed.

    These are the bridges that its node in the device tree names, and the bridge that it is below.
    """
    named = (region.owner / "of_node" / "fpga-bridges").exists()
    return named or bool(list_matches(region.owner.parent, "fpga_bridge/*"))


def make_overlay(target: str, firmware: str) -> bytes:
    """Return the overlay, in the flattened format, that makes the kernel write a partial bitstream to a region.

    Args:
        target: path of the region's node in the device tree.
        firmware: name of the firmware file.
    """
    strings = bytearray()
    content = {"firmware-name": _text(firmware), "partial-fpga-config": b""}
    nodes = _node("__overlay__", _properties(strings, content))
    nodes = _node("fragment@0", _properties(strings, {"target-path": _text(target)}) + nodes)
    tree = _node("", nodes) + struct.pack(">I", _END)
    reservations = bytes(16)
    start = _HEADER.size + len(reservations)
    header = _HEADER.pack(
        *(_MAGIC, start + len(tree) + len(strings), start, start + len(tree), _HEADER.size),
        *(_VERSION, _COMPATIBLE, 0, len(strings), len(tree)),
    )
    return header + reservations + tree + bytes(strings)


def program_by_overlay(
    kernel: Kernel, overlays: Path, folder: Path, region: SysfsDevice, file: VerifiedFile
) -> None:
    """Program a region with a partial bitstream.

    Args:
        kernel: makes the calls.
        overlays: the folder of overlays in configfs.
        folder: the node's folder of firmware files.
        region: the region.
        file: the bitstream.

    Raises:
        FpgaError: the kernel rejected the overlay or the bitstream.
    """
    name = f"dradriver-{region.name}"
    overlay, firmware, blob = overlays / name, folder / f"{name}.bin", folder / f"{name}.dtbo"
    try:
        if overlay.exists():
            kernel.remove_folder(overlay)
        with create_private(firmware) as target:
            file.send_bits(target)
        blob.write_bytes(make_overlay(find_tree_path(region), firmware.name))
        kernel.make_folder(overlay)
        kernel.write(overlay / "path", blob.name)
        if read(overlay / "status") != _APPLIED:
            raise FpgaError(f"overlay {name} was not applied: its status is {read(overlay / 'status')!r}")
    except OSError as error:
        raise make_error(error, f"overlay {name} of {region.name}") from error
    finally:
        firmware.unlink(missing_ok=True)
        blob.unlink(missing_ok=True)


def _node(name: str, content: bytes) -> bytes:
    return struct.pack(">I", _BEGIN_NODE) + _pad(_text(name)) + content + struct.pack(">I", _END_NODE)


def _properties(strings: bytearray, values: dict[str, bytes]) -> bytes:
    """Return the properties; their names are appended to `strings`."""
    found = b""
    for name, value in values.items():
        found += struct.pack(">3I", _PROPERTY, len(value), len(strings)) + _pad(value)
        strings += _text(name)
    return found


def _text(text: str) -> bytes:
    return os.fsencode(text) + b"\0"


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
