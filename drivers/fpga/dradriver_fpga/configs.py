"""Opaque parameters of claims and device classes."""

import base64
import binascii
import re
from pathlib import PurePosixPath
from typing import Final

import msgspec

import dradriver as dra
from dradriver_fpga.names import is_id, is_name
from dradriver_fpga.urls import parse_url

__all__ = ["ConfigMapKey", "FpgaConfig", "RequestedBitstream"]

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE_BYTES: Final = 64


class ConfigMapKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key of a ConfigMap in the claim's namespace. Kubernetes limits the ConfigMap to 1 MiB."""

    name: str
    key: str


class RequestedBitstream(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Source and properties of a bitstream. Exactly one of `file`, `config_map` and `url` is given.

    Attributes:
        sha256: digest of the file, 64 hex digits.
        file: name in the node's folder of bitstreams.
        config_map: the key of a ConfigMap under which the file is stored.
        url: an `http` or `https` URL. The node's settings list the allowed URLs.
        interface_id: interface for which the bitstream was made, or its name in the node's settings; "": use
            the ID in the file.
        signature: Ed25519 signature, in base64, of the file's digest (32 bytes), or of the digest and the
            interface's ID (48 bytes). The node's settings decide whether it is required.
    """

    sha256: str
    file: str | None = None
    config_map: ConfigMapKey | None = None
    url: str | None = None
    interface_id: str = msgspec.field(default="", name="interfaceID")
    signature: str = ""

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256.lower()):
            raise ValueError("sha256 must be 64 hex digits")
        if sum(each is not None for each in (self.file, self.config_map, self.url)) != 1:
            raise ValueError("exactly one of file, configMap and url must be set")
        if self.file is not None and not _is_relative(self.file):
            raise ValueError("file must be a relative path without `..`")
        if self.url is not None and (problem := _find_url_problem(self.url)):
            raise ValueError(f"url {problem}")
        if self.interface_id and not (is_id(self.interface_id) or is_name(self.interface_id)):
            raise ValueError(
                "interfaceID must be 32 hex digits, with or without dashes, or a name of the node's settings"
            )
        if self.signature and not _is_signature(self.signature):
            raise ValueError(f"signature must be {_SIGNATURE_BYTES} bytes in base64")

    @property
    def digest(self) -> str:
        """The digest of the file (`sha256`), in lower case as hashlib returns it."""
        return self.sha256.lower()

    @property
    def location(self) -> str:
        """The source of the bitstream, for messages."""
        if self.config_map is not None:
            return f"key {self.config_map.key} of ConfigMap {self.config_map.name}"
        return self.url or self.file or ""


class FpgaConfig(dra.Config):
    """Configuration of every kind of device.

    Attributes:
        bitstream: the bitstream that the device must hold; None: the device keeps its present content.
    """

    api_version = "fpga.example.com/v1"
    kind = "FpgaConfig"
    bitstream: RequestedBitstream | None = None


def _is_relative(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts


def _is_signature(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _SIGNATURE_BYTES
    except binascii.Error:
        return False


def _find_url_problem(url: str) -> str:
    try:
        parse_url(url)
    except ValueError as error:
        return str(error)
    return ""
