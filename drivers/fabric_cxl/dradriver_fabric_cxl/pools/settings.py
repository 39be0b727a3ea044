"""The operator's settings: YAML in `$FABRIC_CXL_POOLS_SETTINGS`."""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
import yaml

import dradriver as dra
from dradriver_fabric_cxl.configs import parse_mebibytes
from dradriver_fabric_cxl.offer import OfferRules

__all__ = ["VARIABLE", "FabricSimulatorSettings", "ManagerSettings", "PoolsSettings", "read_settings"]

VARIABLE: Final = "FABRIC_CXL_POOLS_SETTINGS"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class ManagerSettings(_Strict, frozen=True):
    """How to reach the fabric manager.

    Attributes:
        url: `https://HOST:PORT`.
        ca_file: file with the certificates that sign the manager's; "": those of the system.
        user_file, password_file: files with the user and the password. They are read again when they change.
        fabric: ID of the fabric; "" for the only CXL fabric.
    """

    url: str
    user_file: str
    password_file: str
    ca_file: str = ""
    fabric: str = ""


class FabricSimulatorSettings(_Strict, frozen=True):
    """A simulated fabric.

    Attributes:
        folder: folder that the drivers of all simulated nodes share; "": a folder of the user among the
            temporary files.
    """

    folder: str = ""


class PoolsSettings(_Strict, frozen=True):
    """The settings; `docs/drivers/fabric-cxl.md` explains each setting.

    Attributes:
        manager: the fabric manager; None: only a simulated fabric is possible.
        handed_out_by: who chooses the memory and accelerators of a claim. `slices`: the scheduler, from the
            published pool. `controller`: this driver, for classes with a `ControllerClass` (KEP-3063); it
            publishes nothing.
        pool: name of the pool; "": made of the fabric's ID. Two clusters that share a fabric must have
            different names: the driver removes chunks of its pool that no claim has.
        hosts: names of nodes by the ID of their host (initiator endpoint). Other hosts are found by the UUID of
            their computer.
        sizes: sizes of memory as Kubernetes quantities: `1Gi`; empty: four sizes for each domain, from its
            minimum in powers of two.
        whole_domains: whether a domain is one device that claims share in any size. The attachments of a host
            are not counted then: a claim fails, and is scheduled again, if its host has none left.
        default_attachments: attachments of a host whose limit the manager does not report.
        attach_seconds: time limit of one attach or detach.
        simulator: the simulated fabric.
    """

    manager: ManagerSettings | None = None
    handed_out_by: Literal["slices", "controller"] = "slices"
    pool: str = ""
    hosts: dict[str, str] = {}
    sizes: tuple[str, ...] = ()
    whole_domains: bool = False
    default_attachments: Annotated[int, msgspec.Meta(gt=0)] = 4
    # `FabricPoolsDriver.attach_timeout_seconds` is larger, so that the driver's own error comes first.
    attach_seconds: Annotated[float, msgspec.Meta(gt=0, le=480)] = 300.0
    simulator: FabricSimulatorSettings = FabricSimulatorSettings()

    def make_rules(self) -> OfferRules:
        """Return the rules for the pool.

        Raises:
            ValueError: a size is not a whole number of mebibytes.
        """
        return OfferRules(
            pool=self.pool,
            hosts=self.hosts,
            sizes=tuple(_parse_size(each) for each in self.sizes),
            whole_domains=self.whole_domains,
            default_attachments=self.default_attachments,
        )


def read_settings(text: str) -> PoolsSettings:
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
        settings = msgspec.convert(document, PoolsSettings)
        settings.make_rules()
    except (msgspec.ValidationError, ValueError) as error:
        raise dra.UsageError(f"${VARIABLE}: {error}") from error
    if settings.manager is not None and (problem := _find_url_problem(settings.manager.url)):
        raise dra.UsageError(f"${VARIABLE}: manager.url: {problem}")
    return settings


def _find_url_problem(url: str) -> str:
    """Return why a URL is not that of a manager; "" if it is. The text has no user and no password."""
    if not url.startswith("https://"):
        return f"{url} must begin with https://"
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        return f"is invalid: {error}"
    if (
        not is_valid
        or parts.username is not None
        or parts.path not in {"", "/"}
        or parts.query
        or parts.fragment
    ):
        return "must be https://HOST or https://HOST:PORT, without a user and a path"
    return ""


def _parse_size(text: str) -> int:
    try:
        return parse_mebibytes(text)
    except ValueError as error:
        raise ValueError(f"sizes: {error}") from error
