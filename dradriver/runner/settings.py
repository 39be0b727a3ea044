"""The settings of a driver's process, in a table that `run()` and `dradriver run` share."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from dradriver.errors import UsageError
from dradriver.model import names

__all__ = ["OPTIONS", "Option", "Settings"]


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: the field of `Settings`; `node_name` is the flag `--node-name`.
        environment: the environment variables of the setting. The first variable that is set and not empty is
            used.
        default: the default value.
        help: the description, for `--help` and the documentation.
        choices: the allowed values. Empty: all values are allowed.
        only: the kinds of drivers that use the setting: `node`, `pool` or `controller`. Empty: all kinds.
    """

    name: str
    environment: tuple[str, ...]
    default: str
    help: str
    choices: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Return the command line flag."""
        return "--" + self.name.replace("_", "-")


OPTIONS: Final = (
    Option(
        "kubeconfig",
        ("DRADRIVER_KUBECONFIG",),
        "",
        "kubeconfig file; if not set: $KUBECONFIG, the pod's service account, ~/.kube/config",
    ),
    Option("context", ("DRADRIVER_CONTEXT",), "", "context of the kubeconfig; if not set: its current context"),
    Option(
        "node_name",
        ("DRADRIVER_NODE_NAME", "NODE_NAME"),
        "",
        "name of the node that this process runs on; if not set: the host name",
        only=("node",),
    ),
    Option(
        "plugins_dir",
        ("DRADRIVER_PLUGINS_DIR",),
        "/var/lib/kubelet/plugins",
        "the kubelet's plugin folder; socket and state are in its subfolder with the driver's name",
        only=("node",),
    ),
    Option(
        "registry_dir",
        ("DRADRIVER_REGISTRY_DIR",),
        "/var/lib/kubelet/plugins_registry",
        "folder in which the kubelet looks for plugins",
        only=("node",),
    ),
    Option(
        "cdi_dir",
        ("DRADRIVER_CDI_DIR",),
        "/var/run/cdi",
        "folder in which the container runtime looks for CDI specs",
        only=("node",),
    ),
    Option(
        "pod_uid",
        ("DRADRIVER_POD_UID", "POD_UID"),
        "",
        "UID of the pod that this process runs in; required for two versions side by side in an update",
        only=("node",),
    ),
    Option(
        "owner",
        ("DRADRIVER_OWNER",),
        "",
        "owner of the slices, which are deleted with it: deviceclass/NAME or namespace/NAME; if not set: they "
        "stay until `dradriver withdraw`",
        only=("pool",),
    ),
    Option(
        "lease_namespace",
        ("DRADRIVER_LEASE_NAMESPACE",),
        "",
        "namespace of the Lease for leader election, which has the driver's name; if not set: the namespace of "
        "the service account or context",
        only=("pool", "controller"),
    ),
    Option(
        "lease_seconds",
        ("DRADRIVER_LEASE_SECONDS",),
        "15",
        "seconds without a renewal after which another process acquires the Lease; a leader that cannot renew "
        "it stops after two thirds of this time",
        only=("pool", "controller"),
    ),
    Option(
        "simulate",
        ("DRADRIVER_SIMULATE",),
        "never",
        "use the driver's hardware simulator, if it has one; auto: only if the hardware is missing",
        ("never", "auto", "always"),
    ),
    Option(
        "metrics_port",
        ("DRADRIVER_METRICS_PORT",),
        "0",
        "port for /metrics (Prometheus), /healthz and /readyz; 0: none",
    ),
    Option(
        "metrics_host",
        ("DRADRIVER_METRICS_HOST",),
        "",
        "IPv4 or IPv6 address for --metrics-port; if not set: all addresses",
    ),
    Option("log_format", ("DRADRIVER_LOG_FORMAT",), "text", "format of the log on stderr", ("text", "json")),
    Option(
        "log_level",
        ("DRADRIVER_LOG_LEVEL",),
        "info",
        "lowest level that is logged; debug also shows tracebacks of the driver's code",
        ("debug", "info", "warning", "error"),
    ),
)
"""Every setting of a driver's process."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a driver's process; see `OPTIONS` for the meaning of each field."""

    kubeconfig: Path | None
    context: str
    node_name: str
    plugins_dir: Path
    registry_dir: Path
    cdi_dir: Path
    pod_uid: str
    owner: str
    lease_namespace: str
    lease_seconds: int
    simulate: Literal["never", "auto", "always"]
    metrics_port: int
    metrics_host: str
    log_format: str
    log_level: str

    @classmethod
    def read(cls, given: Mapping[str, str | None], environment: Mapping[str, str]) -> "Settings":
        """Return the settings: each from the command line, the environment or the defaults, in this order.

        Args:
            given: the values of the command line, by option name. None: the option was not given.
            environment: the environment variables of the process.

        Raises:
            UsageError: a value is not valid. The message names the flag.
        """
        values = {option.name: _value(option, given.get(option.name), environment) for option in OPTIONS}
        node_name = values["node_name"] or socket.gethostname().lower()
        if rule := names.dns_subdomain(node_name):
            raise UsageError(f"--node-name: {rule}")
        return cls(
            kubeconfig=Path(values["kubeconfig"]).expanduser() if values["kubeconfig"] else None,
            context=values["context"],
            node_name=node_name,
            plugins_dir=Path(values["plugins_dir"]).expanduser(),
            registry_dir=Path(values["registry_dir"]).expanduser(),
            cdi_dir=Path(values["cdi_dir"]).expanduser(),
            pod_uid=values["pod_uid"],
            owner=values["owner"],
            lease_namespace=values["lease_namespace"],
            lease_seconds=_number("--lease-seconds", values["lease_seconds"], 1, 3600),
            simulate=cast(Literal["never", "auto", "always"], values["simulate"]),  # one of the choices
            metrics_port=_number("--metrics-port", values["metrics_port"], 0, 65535),
            metrics_host=values["metrics_host"],
            log_format=values["log_format"],
            log_level=values["log_level"],
        )


def _value(option: Option, given: str | None, environment: Mapping[str, str]) -> str:
    source, value = option.flag, given
    if value is None:
        source = next((name for name in option.environment if environment.get(name)), option.flag)
        value = environment.get(source) or option.default
    if option.choices and value not in option.choices:
        raise UsageError(f"{source}: {value!r} must be one of {', '.join(option.choices)}")
    return value


def _number(flag: str, text: str, minimum: int, maximum: int) -> int:
    if not text.isdecimal() or not minimum <= int(text) <= maximum:
        raise UsageError(f"{flag}: {text!r} must be a number between {minimum} and {maximum}")
    return int(text)
