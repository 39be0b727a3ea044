"""Verifies bitstream files in pieces, reads their headers, and checks whether they may be written."""

import enum
import hashlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import msgspec

from dradriver_fpga.card.errors import (
    IncompatibleError,
    TooLargeError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.card.values import Bitstream, Platform, normalize_id

__all__ = [
    "Format",
    "Image",
    "load_image",
    "read_image",
    "require_platform",
    "require_stated_interface",
    "verify_chunks",
]

_CHUNK_BYTES: Final = 1 << 20
_MAX_METADATA: Final = 1 << 20
"""Maximum number of bytes of the JSON in a GBS file. It has a few hundred bytes."""

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
    """Properties of a bitstream file, from its header.

    Attributes:
        format: format of the file.
        interface_id: interface for which the file was made; "" if the file does not contain this ID.
        afu_id: AFU ID of a region after programming; "" if the file does not contain this ID.
        size: size of the file in bytes.
        start: offset at which the bits for a manager begin.
        platform: name (VBNV) of the platform for which the file was made; "" if the file does not contain it.
        timestamp: time stamp of that platform's feature ROM; 0 if the file does not contain it.
    """

    format: Format
    interface_id: str
    afu_id: str
    size: int
    start: int = 0
    platform: str = ""
    timestamp: int = 0


class _Cluster(msgspec.Struct, rename="kebab"):
    accelerator_type_uuid: str = ""


class _AfuImage(msgspec.Struct, rename="kebab"):
    interface_uuid: str = ""
    accelerator_clusters: list[_Cluster] = []


class _Metadata(msgspec.Struct, rename="kebab"):
    afu_image: _AfuImage


def load_image(bitstream: Bitstream, limit: int) -> Image:
    """Read the file, at most `limit` bytes, check its digest, and return its properties. Blocking.

    Raises:
        UnreadableBitstreamError: the file cannot be read, or its header is broken.
        TooLargeError: the file is larger than `limit`.
        WrongDigestError: the file's digest is not the requested one.
    """
    try:
        with bitstream.path.open("rb") as file:
            for _ in verify_chunks(file, bitstream, limit):
                pass
            return read_image(file, bitstream.path)
    except OSError as error:
        message = f"bitstream {bitstream.path} cannot be read: {error.strerror}"
        raise UnreadableBitstreamError(message) from error


def verify_chunks(file: IO[bytes], bitstream: Bitstream, limit: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces, and check it at the end.

    Args:
        file: the file.
        bitstream: the request.
        limit: maximum size in bytes.

    Raises:
        TooLargeError: the file is larger than `limit`.
        WrongDigestError: the file's digest is not the requested one.
        OSError: the file cannot be read.
    """
    size, sha = 0, hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise TooLargeError(f"bitstream {bitstream.path} is larger than the limit of {limit} bytes")
        sha.update(chunk)
        yield chunk
    if sha.hexdigest() != bitstream.sha256.lower():
        raise WrongDigestError(
            f"bitstream {bitstream.path} has the sha256 {sha.hexdigest()}, not {bitstream.sha256}"
        )


def read_image(file: IO[bytes], path: Path) -> Image:
    """Return the properties of a file from its header, which is at most 1 MiB.

    Args:
        file: the file.
        path: path of the file, for messages.

    Raises:
        UnreadableBitstreamError: the file begins like a known format, but its header is broken.
        OSError: the file cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    header = file.read(_MAX_METADATA)
    if header.startswith(_GBS_MAGIC):
        return _read_gbs(header, size, path)
    if header.startswith(_XCLBIN_MAGIC):
        if len(header) < _XCLBIN_HEADER:
            raise UnreadableBitstreamError(f"bitstream {path} ends within the header of an xclbin")
        interface = header[_XCLBIN_INTERFACE]
        return Image(
            format=Format.XCLBIN,
            interface_id=interface.hex() if any(interface) else "",
            afu_id=header[_XCLBIN_UUID].hex(),
            size=size,
            platform=header[_XCLBIN_PLATFORM].partition(b"\0")[0].decode(errors="replace"),
            timestamp=int.from_bytes(header[_XCLBIN_TIMESTAMP], "little"),
        )
    return Image(Format.RAW, "", "", size)


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


def _read_gbs(header: bytes, file_size: int, path: Path) -> Image:
    start = len(_GBS_MAGIC) + 4
    try:
        (size,) = struct.unpack_from("<I", header, len(_GBS_MAGIC))
        if start + size > len(header):
            problem = "ends within" if start + size > file_size else "has more than 1 MiB in"
            raise UnreadableBitstreamError(f"bitstream {path} {problem} the header of a GBS")
        metadata = msgspec.json.decode(header[start : start + size], type=_Metadata)
    except (struct.error, msgspec.DecodeError) as error:
        raise UnreadableBitstreamError(
            f"bitstream {path}: the header of the GBS is invalid: {error}"
        ) from error
    clusters = metadata.afu_image.accelerator_clusters
    afu = normalize_id(clusters[0].accelerator_type_uuid) if clusters else ""
    return Image(Format.GBS, normalize_id(metadata.afu_image.interface_uuid), afu, file_size, start + size)
