"""Operator settings: YAML in `$FPGA_SETTINGS`."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import msgspec
import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import dradriver as dra
from dradriver_fpga.card import normalize_id
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.names import NO_NAMES, FriendlyNames, UnknownNameError
from dradriver_fpga.urls import parse_url

__all__ = [
    "VARIABLE",
    "BitstreamRules",
    "FpgaHostSettings",
    "FpgaSettings",
    "FpgaSimulatorSettings",
    "PolicyRule",
    "SharingSettings",
    "ShellSettings",
    "VendorTools",
    "read_settings",
]

VARIABLE: Final = "FPGA_SETTINGS"

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_CardIDs = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{4}:[0-9a-f]{4}$|^:$")]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class PolicyRule(_Strict, frozen=True):
    """Lets namespaces program devices. A field that is not set allows everything, except `types`.

    Attributes:
        namespaces: names or patterns (`team-*`) of the claims' namespaces.
        types: types of devices. A rule allows whole cards and management devices only if it names them.
        cards: PCI vendor and device of the cards: `8086:09c4`; `:` for platform devices.
        interface_ids: interfaces of the devices; in the settings, IDs or names.
        sources: `file`, `configMap`, and prefixes of URLs.
    """

    namespaces: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    types: tuple[Literal["slot", "region", "card", "management"], ...] = ("slot", "region")
    cards: tuple[_CardIDs, ...] = ()
    interface_ids: tuple[_Text, ...] = msgspec.field(default=(), name="interfaceIDs")
    sources: tuple[str, ...] = ()


class BitstreamRules(_Strict, frozen=True):
    """Rules for bitstreams and their sources.

    Attributes:
        folder: folder on the node for `file`; "": `file` is rejected.
        urls: prefixes of allowed URLs, which also apply to the target of a redirect; empty: every `url` is
            rejected.
        largest_bytes: maximum size of one file.
        cache_bytes: maximum size of all files that are kept on the node.
        seconds: maximum time to fetch one file.
        keys: Ed25519 public keys (PEM). A bitstream that one of them signed is approved.
        digests: sha256 of the bitstreams that are approved without a signature.
        allow_unsigned: whether every bitstream is approved. Must not be set together with keys.
        policy: the namespaces that may program devices; empty: all.
    """

    folder: str = ""
    urls: tuple[str, ...] = ()
    largest_bytes: Annotated[int, msgspec.Meta(gt=0)] = 256 << 20
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2 << 30
    seconds: _Positive = 120.0
    keys: tuple[str, ...] = ()
    digests: tuple[_Digest, ...] = ()
    allow_unsigned: bool = False
    policy: tuple[PolicyRule, ...] = ()


class ShellSettings(_Strict, frozen=True):
    """A shell that the driver may write to whole cards when a claim needs the interface that this shell offers.

    Attributes:
        interface_id: interface for which the bitstreams of regions must be made.
        vendor, device: PCI IDs of the cards for this shell: `8086`, `09c4`.
        bitstream: source of the file; `file` or `url`.
    """

    interface_id: str = msgspec.field(name="interfaceID")
    vendor: str
    device: str
    bitstream: RequestedBitstream


class VendorTools(_Strict, frozen=True):
    """Programs of the vendors; empty: the defaults of `dradriver_fpga.card.real.FpgaHost`.

    Attributes:
        xrt_region: writes a region of an XRT card. `{card}` is the PCI address, `{file}` the bitstream.
        xrt_shell, dfl_shell: write a shell to an XRT card or a DFL card, and return when the shell runs.
        manager: writes a whole FPGA whose manager takes no files.
    """

    xrt_region: tuple[str, ...] = ()
    xrt_shell: tuple[str, ...] = ()
    dfl_shell: tuple[str, ...] = ()
    manager: tuple[str, ...] = ()


class FpgaHostSettings(_Strict, frozen=True):
    """Paths of the node's files, as this process sees them.

    Attributes:
        sysfs, dev: mount points.
        firmware: the node's folder of firmware files. The kernel reads it, and this driver writes to it.
        overlays: folder of device tree overlays in configfs.
        tools: programs of the vendors.
    """

    sysfs: str = "/sys"
    dev: str = "/dev"
    firmware: str = "/lib/firmware"
    overlays: str = "/sys/kernel/config/device-tree/overlays"
    tools: VendorTools = VendorTools()


class FpgaSimulatorSettings(_Strict, frozen=True):
    """Cards that are simulated on a node without a card.

    Attributes:
        models: the model of each card, as a name in the simulator's catalog.
        speed: factor by which programming is faster than on a real card. The default suits the small bitstreams
            of demonstrations.
    """

    models: tuple[str, ...] = ("pac",)
    speed: _Positive = 1e-5


class SharingSettings(_Strict, frozen=True):
    """How claims share devices.

    Attributes:
        claims_per_slot: number of claims that may use a slot of an XRT card at the same time. XRT runs several
            processes on one card if they use the same xclbin.
    """

    claims_per_slot: Annotated[int, msgspec.Meta(ge=1)] = 1


class FpgaSettings(_Strict, frozen=True):
    """The settings; `docs/drivers/fpga.md` explains each setting.

    Attributes:
        bitstreams: rules for bitstreams.
        shells: shells that the driver may write to whole cards.
        management_devices: whether the management engines of cards are also offered as devices. The user of a
            management engine can write anything to the card, without any check of digest, key or source.
        names: friendly names for interfaces and functions.
        sharing: how claims share devices.
        program_seconds: maximum time to program one target.
        removed_seconds: seconds for which a pulled card stays published with a taint, so that its pods are
            evicted.
        rescan_seconds: seconds between two reads of the cards while the kernel reports no change.
        host: paths of the node's files.
        simulator: the simulated cards.
    """

    bitstreams: BitstreamRules = BitstreamRules()
    shells: tuple[ShellSettings, ...] = ()
    management_devices: bool = False
    names: FriendlyNames = NO_NAMES
    sharing: SharingSettings = SharingSettings()
    program_seconds: _Positive = 600.0
    removed_seconds: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    rescan_seconds: _Positive = 30.0
    host: FpgaHostSettings = FpgaHostSettings()
    simulator: FpgaSimulatorSettings = FpgaSimulatorSettings()

    def public_keys(self) -> Sequence[Ed25519PublicKey]:
        """Return the keys that may sign bitstreams."""
        return [_load_key(pem) for pem in self.bitstreams.keys]


def read_settings(text: str) -> FpgaSettings:
    """Return the settings.

    Args:
        text: YAML; empty: all defaults.

    Raises:
        UsageError: the text is invalid.
    """
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise dra.UsageError(f"${VARIABLE}: invalid YAML: {error}") from error
    try:
        settings = msgspec.convert(document, FpgaSettings)
        settings.public_keys()
    except (msgspec.ValidationError, ValueError) as error:
        raise dra.UsageError(f"${VARIABLE}: {error}") from error
    _check_rules(settings.bitstreams)
    for number, shell in enumerate(settings.shells):
        if shell.bitstream.config_map is not None:
            raise dra.UsageError(f"${VARIABLE}: shells[{number}].bitstream: must be a file or a url")
    settings = msgspec.structs.replace(
        settings, shells=tuple(_resolve_shells(settings)), bitstreams=_resolve_rules(settings)
    )
    if repeated := _find_repeated(settings.shells):
        raise dra.UsageError(f"${VARIABLE}: shells: {repeated} must occur only once")
    return settings


def _resolve_shells(settings: FpgaSettings) -> Iterator[ShellSettings]:
    """Yield the shells with IDs instead of names."""
    resolve = settings.names.resolve_interface
    for number, shell in enumerate(settings.shells):
        try:
            interface = resolve(shell.bitstream.interface_id)
            bitstream = msgspec.structs.replace(shell.bitstream, interface_id=interface)
            yield msgspec.structs.replace(shell, interface_id=resolve(shell.interface_id), bitstream=bitstream)
        except UnknownNameError as error:
            raise dra.UsageError(f"${VARIABLE}: shells[{number}]: {error}") from error


def _resolve_rules(settings: FpgaSettings) -> BitstreamRules:
    """Return the rules for bitstreams, with IDs instead of names in their policy."""
    policy = []
    for number, rule in enumerate(settings.bitstreams.policy):
        try:
            interfaces = tuple(map(settings.names.resolve_interface, rule.interface_ids))
        except UnknownNameError as error:
            raise dra.UsageError(f"${VARIABLE}: bitstreams.policy[{number}]: {error}") from error
        policy.append(msgspec.structs.replace(rule, interface_ids=interfaces))
    return msgspec.structs.replace(settings.bitstreams, policy=tuple(policy))


def _check_rules(rules: BitstreamRules) -> None:
    if rules.keys and rules.allow_unsigned:
        message = "bitstreams.allowUnsigned: must be false, because bitstreams.keys is set"
        raise dra.UsageError(f"${VARIABLE}: {message}")
    for number, prefix in enumerate(rules.urls):
        _check_prefix(f"bitstreams.urls[{number}]", prefix)
    for number, rule in enumerate(rules.policy):
        for index, source in enumerate(rule.sources):
            if source not in {"file", "configMap"}:
                _check_prefix(f"bitstreams.policy[{number}].sources[{index}]", source)


def _check_prefix(field: str, prefix: str) -> None:
    try:
        query = parse_url(prefix).query
    except ValueError as error:
        raise dra.UsageError(f"${VARIABLE}: {field}: {prefix} {error}") from error
    if query:
        raise dra.UsageError(f"${VARIABLE}: {field}: {prefix} must have no query")


def _find_repeated(shells: Sequence[ShellSettings]) -> str:
    seen: set[tuple[str, str, str]] = set()
    for shell in shells:
        key = (shell.vendor, shell.device, normalize_id(shell.interface_id))
        if key in seen:
            return f"interface {key[2]} of {key[0]}:{key[1]}"
        seen.add(key)
    return ""


def _load_key(pem: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"bitstreams.keys: not a public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("bitstreams.keys: must be Ed25519 keys")  # noqa: TRY004 - an invalid setting
    return key
