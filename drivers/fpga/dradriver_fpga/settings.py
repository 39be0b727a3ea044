"""What an operator chooses: YAML in `$FPGA_SETTINGS`."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import dradriver as dra
from dradriver_fpga.card import normal_id
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.urls import parse_url

__all__ = [
    "VARIABLE",
    "BitstreamRules",
    "HostSettings",
    "Settings",
    "ShellSettings",
    "Simulator",
    "Tools",
    "read_settings",
]

VARIABLE: Final = "FPGA_SETTINGS"

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class BitstreamRules(_Strict, frozen=True):
    """Where bitstreams may come from, and which.

    Attributes:
        folder: on the node, for `file`; none: `file` is refused.
        urls: what a `url` must begin with, also after a redirect; none: every `url` is refused.
        largest_bytes: of one file.
        cache_bytes: of all files that are kept on the node.
        seconds: how long one file may take to arrive.
        keys: Ed25519 public keys (PEM); with any, every bitstream must be signed by one of them.
    """

    folder: str = ""
    urls: tuple[str, ...] = ()
    largest_bytes: Annotated[int, msgspec.Meta(gt=0)] = 256 << 20
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2 << 30
    seconds: _Positive = 120.0
    keys: tuple[str, ...] = ()


class ShellSettings(_Strict, frozen=True):
    """A bitstream for whole cards, which the driver may write when a claim needs its interface.

    Attributes:
        interface_id: what it offers to the bitstreams of regions.
        vendor, device: the cards that it is for, by PCI ID: `8086`, `09c4`.
        bitstream: where it is; `file` or `url`.
    """

    interface_id: str = msgspec.field(name="interfaceID")
    vendor: str
    device: str
    bitstream: RequestedBitstream


class Tools(_Strict, frozen=True):
    """The vendors' programs; none: as `dradriver_fpga.card.real.Host` has them.

    Attributes:
        xrt_region: writes a region of an XRT card; `{card}` is the PCI address, `{file}` the bitstream.
        xrt_shell, dfl_shell: write a shell to such a card, and return when it runs.
    """

    xrt_region: tuple[str, ...] = ()
    xrt_shell: tuple[str, ...] = ()
    dfl_shell: tuple[str, ...] = ()


class HostSettings(_Strict, frozen=True):
    """Where the node's files are, as this process sees them.

    Attributes:
        sysfs, dev: where they are mounted.
        firmware: the node's own folder of firmware files, which its kernel reads; written to.
        tools: the vendors' programs.
    """

    sysfs: str = "/sys"
    dev: str = "/dev"
    firmware: str = "/lib/firmware"
    tools: Tools = Tools()


class Simulator(_Strict, frozen=True):
    """What is simulated where there is no card.

    Attributes:
        models: one name of the simulator's catalog a card.
        speed: how many times faster than such a card it is programmed; bitstreams of a demonstration are small.
    """

    models: tuple[str, ...] = ("pac",)
    speed: _Positive = 1e-5


class Settings(_Strict, frozen=True):
    """The choices; `docs/drivers/fpga.md` explains each.

    Attributes:
        bitstreams: where they may come from.
        shells: what whole cards may be programmed to.
        management_devices: whether the management engines of cards are offered, too. The holder of one writes
            anything into the card: no digest, key or rule about sources is asked then.
        program_seconds: how long one programming may take.
        removed_seconds: how long a card that was pulled stays published, tainted, for its pods to be evicted.
        rescan_seconds: between two looks at the cards while the kernel tells nothing.
        host: where the node's files are.
        simulator: what is simulated.
    """

    bitstreams: BitstreamRules = BitstreamRules()
    shells: tuple[ShellSettings, ...] = ()
    management_devices: bool = False
    program_seconds: _Positive = 600.0
    removed_seconds: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    rescan_seconds: _Positive = 30.0
    host: HostSettings = HostSettings()
    simulator: Simulator = Simulator()

    def public_keys(self) -> Sequence[Ed25519PublicKey]:
        """The keys that may sign."""
        return [_key(pem) for pem in self.bitstreams.keys]


def read_settings(text: str) -> Settings:
    """The settings.

    Args:
        text: YAML; empty: everything as it is by default.

    Raises:
        UsageError: the text can't be used.
    """
    try:
        given = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise dra.UsageError(f"${VARIABLE}: not YAML: {error}") from error
    try:
        settings = msgspec.convert(given, Settings)
        settings.public_keys()
    except (msgspec.ValidationError, ValueError) as error:
        raise dra.UsageError(f"${VARIABLE}: {error}") from error
    for number, prefix in enumerate(settings.bitstreams.urls):
        try:
            query = parse_url(prefix).query
        except ValueError as error:
            raise dra.UsageError(f"${VARIABLE}: bitstreams.urls[{number}]: {prefix} {error}") from error
        if query:
            raise dra.UsageError(f"${VARIABLE}: bitstreams.urls[{number}]: {prefix} must have no query")
    for number, shell in enumerate(settings.shells):
        if shell.bitstream.config_map is not None:
            raise dra.UsageError(f"${VARIABLE}: shells[{number}].bitstream: a shell is a file or a url")
    if repeated := _repeated(settings.shells):
        raise dra.UsageError(f"${VARIABLE}: shells: {repeated} stands there twice")
    return settings


def _repeated(shells: Sequence[ShellSettings]) -> str:
    seen: set[tuple[str, str, str]] = set()
    for shell in shells:
        key = (shell.vendor, shell.device, normal_id(shell.interface_id))
        if key in seen:
            return f"interface {key[2]} of {key[0]}:{key[1]}"
        seen.add(key)
    return ""


def _key(pem: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"bitstreams.keys: not a public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("bitstreams.keys: only Ed25519 keys sign bitstreams")  # noqa: TRY004 - a user's mistake
    return key
