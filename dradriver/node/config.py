"""Paths and time limits of the node plugin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DRIVER_DIR", "PluginConfig"]

DRIVER_DIR: Final = "driver"
"""The folder in the plugin's data directory that belongs to the driver (`Driver.data_dir`)."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """Settings of one plugin process; the defaults are the kubelet's.

    Attributes:
        node_name: the name of this machine's Node object.
        plugins_dir: parent of the plugin's data directory; the same path inside and outside a container.
        registry_dir: where the kubelet looks for registration sockets.
        cdi_dir: where the container runtime looks for CDI specs.
        pod_uid: UID of the plugin's pod. If set, two instances can run at the same time (rolling update).
        prepare_deadline: seconds after which a call is answered even if its work continues. The kubelet gives
            up after 45.
        collect_seconds: interval of the search for claims that are gone.
        sweep_seconds: interval of the search for lost CDI specs.
        rediscover_delay: seconds for which calls of `rediscover()` are collected into one.
        boot_id: identifies the boot. Empty: it is read from `/proc/sys/kernel/random/boot_id`.
    """

    node_name: str
    plugins_dir: Path = Path("/var/lib/kubelet/plugins")
    registry_dir: Path = Path("/var/lib/kubelet/plugins_registry")
    cdi_dir: Path = Path("/var/run/cdi")
    pod_uid: str = ""
    prepare_deadline: float = 40.0
    collect_seconds: float = 300.0
    sweep_seconds: float = 30.0
    rediscover_delay: float = 0.1
    boot_id: str = ""

    def __post_init__(self) -> None:
        # The kubelet and the container runtime receive these paths, and have their own working directories.
        for name in ("plugins_dir", "registry_dir", "cdi_dir"):
            object.__setattr__(self, name, Path(getattr(self, name)).absolute())

    def data_dir(self, driver: str) -> Path:
        """Return the plugin's data directory: prepared state, device metadata, lock file, service socket."""
        return self.plugins_dir / driver
