"""The settings of a driver's process: one table for `run()` and `dradriver run`."""

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
        environment: variables with its value. The first one that is set and not empty is used.
        default: the default value.
        help: the description, for `--help` and the documentation.
        choices: the allowed values. Empty: any.
        only: the kind of driver that uses it: `node` or `pool`. Empty: both.
    """

    name: str
    environment: tuple[str, ...]
    default: str
    help: str
    choices: tuple[str, ...] = ()
    only: str = ""

    @property
    def flag(self) -> str:
        """Return the command line flag."""
        return "--" + self.name.replace("_", "-")


OPTIONS: Final = (
    Option(
        "kubeconfig",
        ("DRADRIVER_KUBECONFIG",),
        "",
        "kubeconfig file; without one: $KUBECONFIG, the pod's service account, ~/.kube/config",
    ),
    Option(
        "context", ("DRADRIVER_CONTEXT",), "", "context of the kubeconfig; without one: its current context"
    ),
    Option(
        "node_name",
        ("DRADRIVER_NODE_NAME", "NODE_NAME"),
        "",
        "name of the node that this process runs on; without one: the host name",
        only="node",
    ),
    Option(
        "plugins_dir",
        ("DRADRIVER_PLUGINS_DIR",),
        "/var/lib/kubelet/plugins",
        "the kubelet's folder of plugins; socket and state live in a folder of it named after the driver",
        only="node",
    ),
    Option(
        "registry_dir",
        ("DRADRIVER_REGISTRY_DIR",),
        "/var/lib/kubelet/plugins_registry",
        "the folder in which the kubelet looks for plugins",
        only="node",
    ),
    Option(
        "cdi_dir",
        ("DRADRIVER_CDI_DIR",),
        "/var/run/cdi",
        "the folder in which the container runtime looks for CDI specs",
        only="node",
    ),
    Option(
        "pod_uid",
        ("DRADRIVER_POD_UID", "POD_UID"),
        "",
        "UID of the pod that this process runs in; with one, two versions can run side by side in an update",
        only="node",
    ),
    Option(
        "owner",
        ("DRADRIVER_OWNER",),
        "",
        "what the slices of a pool driver go with: deviceclass/NAME or namespace/NAME; without one they stay "
        "until `dradriver withdraw`",
        only="pool",
    ),
    Option(
        "lease_namespace",
        ("DRADRIVER_LEASE_NAMESPACE",),
        "",
        "namespace of the Lease, named as the driver, that the one process holds which acts; without one: the "
        "service account's or the context's namespace",
        only="pool",
    ),
    Option(
        "lease_seconds",
        ("DRADRIVER_LEASE_SECONDS",),
        "15",
        "seconds after which another process takes over from one that does not renew the Lease; the process "
        "itself stops after two thirds of them",
        only="pool",
    ),
    Option(
        "simulate",
        ("DRADRIVER_SIMULATE",),
        "never",
        "use the driver's simulator of its hardware, if it has one; auto: where the hardware is missing",
        ("never", "auto", "always"),
    ),
    Option(
        "metrics_port",
        ("DRADRIVER_METRICS_PORT",),
        "0",
        "port for /metrics (Prometheus), /healthz and /readyz; 0 serves none",
    ),
    Option(
        "metrics_host",
        ("DRADRIVER_METRICS_HOST",),
        "",
        "address for them, IPv4 or IPv6; without one: all",
    ),
    Option("log_format", ("DRADRIVER_LOG_FORMAT",), "text", "form of the log on stderr", ("text", "json")),
    Option(
        "log_level",
        ("DRADRIVER_LOG_LEVEL",),
        "info",
        "least important message that is logged; debug also shows where the driver's code failed",
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
        """Return settings from the command line, else the environment, else the defaults.

        Args:
            given: values of the command line by option name. None: not given.
            environment: the process's environment.

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
            lease_seconds=_seconds(values["lease_seconds"]),
            simulate=cast(Literal["never", "auto", "always"], values["simulate"]),  # one of the choices
            metrics_port=_port(values["metrics_port"]),
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
        raise UsageError(f"{source}: {value!r} is not one of {', '.join(option.choices)}")
    return value


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise UsageError(f"--lease-seconds: {text!r} is not a number of seconds between 1 and 3600")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise UsageError(f"--metrics-port: {text!r} is not a port number between 0 and 65535")
    return int(text)
