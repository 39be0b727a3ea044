"""Reads bitstream files and checks whether they may be written."""

import enum
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dradriver_fpga.card.errors import (
    IncompatibleError,
    TooLargeError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.card.values import Bitstream, normalize_id

__all__ = ["Format", "Image", "load_image", "require_interface"]

_GBS_MAGIC: Final = b"XeonFPGA\xb7GBSv001"
_XCLBIN_MAGIC: Final = b"xclbin2\0"
_XCLBIN_INTERFACE: Final = slice(336, 352)
_XCLBIN_UUID: Final = slice(416, 432)
_XCLBIN_HEADER: Final = 456


class Format(enum.Enum):
    """Format of a bitstream file."""

    GBS = "Intel's: a header with JSON, then the bits"
    XCLBIN = "AMD's: a header with UUIDs, then sections"
    RAW = "the bits alone"


@dataclass(frozen=True, slots=True)
class Image:
    """A bitstream file in memory.

    Attributes:
        format: format of the file.
        interface_id: interface for which the file was made; "" if the file does not contain this ID.
        afu_id: AFU ID of a region after programming; "" if the file does not contain this ID.
        data: the whole file.
        start: offset at which the bits for a manager begin.
    """

    format: Format
    interface_id: str
    afu_id: str
    data: bytes
    start: int = 0

    @property
    def bits(self) -> bytes:
        """The file without its header."""
        return self.data[self.start :]


class _Cluster(msgspec.Struct, rename="kebab"):
    accelerator_type_uuid: str = ""


class _AfuImage(msgspec.Struct, rename="kebab"):
    interface_uuid: str = ""
    accelerator_clusters: list[_Cluster] = []


class _Metadata(msgspec.Struct, rename="kebab"):
    afu_image: _AfuImage


def load_image(bitstream: Bitstream, limit: int) -> Image:
    """Read the file, at most `limit` bytes, and check its digest. Blocking.

    Raises:
        UnreadableBitstreamError: the file cannot be read, or its header is broken.
        TooLargeError: the file is larger than `limit`.
        WrongDigestError: the file's digest is not the requested one.
    """
    path = bitstream.path
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UnreadableBitstreamError(f"bitstream {path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise TooLargeError(f"bitstream {path} is larger than the limit of {limit} bytes")
    digest = hashlib.sha256(data).hexdigest()
    if digest != bitstream.sha256.lower():
        raise WrongDigestError(f"bitstream {path} has the sha256 {digest}, not {bitstream.sha256}")
    return _read_image(data, path)


def _read_image(data: bytes, path: Path) -> Image:
    """Return the image with the IDs from the file's header.

    Raises:
        UnreadableBitstreamError: the file begins like a known format, but its header is broken.
    """
    if data.startswith(_GBS_MAGIC):
        return _read_gbs(data, path)
    if data.startswith(_XCLBIN_MAGIC):
        if len(data) < _XCLBIN_HEADER:
            raise UnreadableBitstreamError(f"bitstream {path} ends within the header of an xclbin")
        return Image(Format.XCLBIN, data[_XCLBIN_INTERFACE].hex(), data[_XCLBIN_UUID].hex(), data)
    return Image(Format.RAW, "", "", data)


def require_interface(image: Image, bitstream: Bitstream, interface_id: str, target: str) -> None:
    """Check that a bitstream was made for `interface_id`. If one of the IDs is unknown, the check passes.

    Raises:
        IncompatibleError: the bitstream was made for another interface.
    """
    requested = normalize_id(bitstream.interface_id)
    if requested and image.interface_id and requested != image.interface_id:
        raise IncompatibleError(
            f"bitstream {bitstream.path} is for interface {image.interface_id}, not for interfaceID {requested}"
        )
    made_for = image.interface_id or requested
    if made_for and interface_id and made_for != interface_id:
        raise IncompatibleError(
            f"bitstream {bitstream.path} is for interface {made_for}, {target} has {interface_id}"
        )


def _read_gbs(data: bytes, path: Path) -> Image:
    start = len(_GBS_MAGIC) + 4
    try:
        (size,) = struct.unpack_from("<I", data, len(_GBS_MAGIC))
        if start + size > len(data):
            raise UnreadableBitstreamError(f"bitstream {path} ends within the header of a GBS")
        metadata = msgspec.json.decode(data[start : start + size], type=_Metadata)
    except (struct.error, msgspec.DecodeError) as error:
        raise UnreadableBitstreamError(
            f"bitstream {path}: the header of the GBS is invalid: {error}"
        ) from error
    clusters = metadata.afu_image.accelerator_clusters
    afu = normalize_id(clusters[0].accelerator_type_uuid) if clusters else ""
    return Image(Format.GBS, normalize_id(metadata.afu_image.interface_uuid), afu, data, start + size)
