"""Reads bitstream files and checks whether they may be written."""

import enum
import hashlib
import re
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
from dradriver_fpga.card.values import Bitstream, Platform, normalize_id

__all__ = ["Format", "Image", "load_image", "require_platform", "require_stated_interface"]

_GBS_MAGIC: Final = b"XeonFPGA\xb7GBSv001"
_XCLBIN_MAGIC: Final = b"xclbin2\0"
_XCLBIN_TIMESTAMP: Final = slice(320, 328)
_XCLBIN_INTERFACE: Final = slice(336, 352)
_XCLBIN_PLATFORM: Final = slice(352, 416)
_XCLBIN_UUID: Final = slice(416, 432)
_XCLBIN_HEADER: Final = 456
"""Offsets in `struct axlf` of XRT's xclbin.h: m_featureRomTimeStamp, m_interface_uuid, m_platformVBNV, uuid."""


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
        platform: name (VBNV) of the platform for which the file was made; "" if the file does not contain it.
        timestamp: time stamp of that platform's feature ROM; 0 if the file does not contain it.
    """

    format: Format
    interface_id: str
    afu_id: str
    data: bytes
    start: int = 0
    platform: str = ""
    timestamp: int = 0

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
        interface = data[_XCLBIN_INTERFACE]
        return Image(
            format=Format.XCLBIN,
            interface_id=interface.hex() if any(interface) else "",
            afu_id=data[_XCLBIN_UUID].hex(),
            data=data,
            platform=data[_XCLBIN_PLATFORM].partition(b"\0")[0].decode(errors="replace"),
            timestamp=int.from_bytes(data[_XCLBIN_TIMESTAMP], "little"),
        )
    return Image(Format.RAW, "", "", data)


def require_platform(image: Image, bitstream: Bitstream, platform: Platform, target: str) -> None:
    """Check that a bitstream was made for the target.

    The interface decides. The check passes if the file or the target has no interface ID, except for an
    xclbin: without an interface ID, its platform decides.

    Args:
        image: the file.
        bitstream: the request.
        platform: properties of the target.
        target: ID of the target, for messages.

    Raises:
        IncompatibleError: the bitstream was made for another interface or platform.
    """
    require_stated_interface(image, bitstream)
    stated = normalize_id(bitstream.interface_id) if bitstream.interface_is_proven else ""
    made_for = image.interface_id or stated
    is_unnamed = not made_for and not bitstream.interface_is_proven and image.format is not Format.XCLBIN
    if platform.interface_ids and is_unnamed:
        raise IncompatibleError(
            f"bitstream {bitstream.path} does not name its interface, and its signature is for the digest "
            f"only: {target} has interface {' and '.join(platform.interface_ids)}"
        )
    if made_for and platform.interface_ids:
        if made_for not in platform.interface_ids:
            present = " and ".join(platform.interface_ids)
            raise IncompatibleError(
                f"bitstream {bitstream.path} is for interface {made_for}, {target} has {present}"
            )
    elif image.format is Format.XCLBIN:
        _require_flat_platform(image, bitstream, platform, target)


def require_stated_interface(image: Image, bitstream: Bitstream) -> None:
    """Check that a file does not name another interface than the request.

    Args:
        image: the file.
        bitstream: the request.

    Raises:
        IncompatibleError: the file names another interface.
    """
    requested = normalize_id(bitstream.interface_id)
    if requested and image.interface_id and requested != image.interface_id:
        raise IncompatibleError(
            f"bitstream {bitstream.path} is for interface {image.interface_id}, not for interfaceID {requested}"
        )


def _require_flat_platform(image: Image, bitstream: Bitstream, platform: Platform, target: str) -> None:
    """Check an xclbin that cannot be compared by interface, because its platform is an older, flat one.

    Source:
        XRT's kernel driver compares the time stamps of feature ROM and xclbin (`xocl_verify_timestamp`).
    """
    if image.timestamp and platform.timestamp:
        if image.timestamp != platform.timestamp:
            raise IncompatibleError(
                f"bitstream {bitstream.path} is for platform {image.platform} with time stamp "
                f"{image.timestamp}, {target} has {platform.name} with time stamp {platform.timestamp}"
            )
    elif not (image.platform and platform.name):
        raise IncompatibleError(
            f"bitstream {bitstream.path} cannot be compared with {target}: they have no interface ID, platform "
            "name or time stamp in common"
        )
    if image.platform and platform.name and _plain(image.platform) != _plain(platform.name):
        raise IncompatibleError(
            f"bitstream {bitstream.path} is for platform {image.platform}, {target} has {platform.name}"
        )


def _plain(platform: str) -> str:
    """Return a platform's name as sysfs writes it (`xilinx:u200:xdma:201830.2` becomes `xilinx_u200_...`)."""
    return re.sub("[:.]", "_", platform.strip().lower())


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
