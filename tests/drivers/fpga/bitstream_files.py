"""Bitstream files of each format, for the simulator's cards and for those of `kernel`."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from dradriver_fpga.card import Bitstream
from dradriver_fpga.card.simulator import CATALOG

AFU = "0123456789abcdef0123456789abcdef"


def make_gbs(interface_id: str, afu_id: str, bits: bytes) -> bytes:
    """A file in Intel's format: a header with JSON, then the bits."""
    image = {"interface-uuid": interface_id, "accelerator-clusters": [{"accelerator-type-uuid": afu_id}]}
    metadata = json.dumps({"afu-image": image}, separators=(",", ":")).encode()
    return b"XeonFPGA\xb7GBSv001" + struct.pack("<I", len(metadata)) + metadata + bits


@dataclass(frozen=True)
class Bitstreams:
    """Makes files in a folder."""

    folder: Path

    def file(self, data: bytes, interface_id: str = "") -> Bitstream:
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest
        path.write_bytes(data)
        return Bitstream(path, digest, interface_id)

    def fitting(self, model: str, afu: str = AFU, *, shell: int = 0, size: int = 5000) -> Bitstream:
        """What a region of the card takes while it runs a shell."""
        target = CATALOG[model].shells[shell]
        interface = target.interface_id
        match CATALOG[model].kind:
            case "DFL":
                # The simulated logic reports the first bits as its ID.
                return self.file(make_gbs(interface, afu, bytes.fromhex(afu) + bytes(size)))
            case "XRT":
                return self.file(xclbin(interface, afu, target.name, target.timestamp))
            case "MANAGER" | "VFIO":
                return self.file(bytes.fromhex(afu) + bytes(size))

    def shell(self, model: str, number: int) -> Bitstream:
        """What makes the card run a shell."""
        shell = CATALOG[model].shells[number]
        return self.file(xclbin(shell.interface_id, "0" * 32, shell.name))


def xclbin(interface_id: str, uuid: str, vbnv: str = "", timestamp: int = 0) -> bytes:
    """A header of AMD's format, and a few bits."""
    header = bytearray(456)
    header[:8] = b"xclbin2\0"
    header[320:328] = timestamp.to_bytes(8, "little")
    header[336:352] = bytes.fromhex(interface_id or "00" * 16)
    header[352 : 352 + len(vbnv)] = vbnv.encode()
    header[416:432] = bytes.fromhex(uuid)
    return bytes(header) + bytes(100)
