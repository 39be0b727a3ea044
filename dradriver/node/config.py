"""Paths and time limits of the node plugin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver.errors import UsageError

__all__ = ["DRIVER_DIR", "PluginConfig", "read_boot_id"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

DRIVER_DIR: Final = "driver"
"""The folder in the plugin's data directory that belongs to the driver (`Driver.data_dir`)."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """Settings of one plugin process; the default paths are those of the kubelet.

    Attributes:
        node_name: the name of this machine's Node object.
        plugins_dir: parent of the plugin's data directory. If the plugin runs in a container, the path must be
            the same inside and outside of the container.
        registry_dir: the folder in which the kubelet looks for registration sockets.
        cdi_dir: the folder in which the container runtime looks for CDI specs.
        pod_uid: UID of the plugin's pod. If set, two instances can run at the same time (rolling update).
        prepare_deadline: seconds after which a call of the kubelet is answered even if its work continues. The
            kubelet gives up after 45 seconds.
        collect_seconds: interval of the search for claims that are gone.
        sweep_seconds: interval of the search for lost CDI specs.
        rediscover_delay: seconds to wait after a call of `rediscover()`, so that a burst of calls causes one
            discovery.
        boot_id: identifies the boot of the machine. Empty: read it from `/proc/sys/kernel/random/boot_id`.
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
        # The kubelet and the container runtime also use these paths, and have other working directories.
        for name in ("plugins_dir", "registry_dir", "cdi_dir"):
            object.__setattr__(self, name, Path(getattr(self, name)).absolute())

    def data_dir(self, driver: str) -> Path:
        """Return the plugin's data directory: prepared state, device metadata, lock file, service socket.

        Args:
            driver: the driver's name, which is the name of the directory.
        """
        return self.plugins_dir / driver


def read_boot_id() -> str:
    """Return the kernel's boot ID, which is different after each boot of the machine.

    Raises:
        UsageError: the boot ID cannot be read.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError as error:
        raise UsageError(f"boot ID: cannot be read: {error}") from error
