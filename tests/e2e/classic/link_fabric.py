"""The fabric of a controller in a process of its own (`link_controller.py`), as files of the test."""

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["LinkFabric"]

_PROGRAM: Final = Path(__file__).with_name("link_controller.py")


class LinkFabric:
    """The links of a controller, and the command that starts the controller.

    Args:
        hardware: the folder of all fabrics.
        name: the controller's name.
        plugins: the kubelet plugins of its devices.
    """

    def __init__(self, hardware: Path, name: str, plugins: Sequence[str]) -> None:
        self.name = name
        self._hardware, self._plugins = hardware, plugins
        (self.folder / "claims").mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        """Return the folder of the fabric."""
        return self._hardware / self.name

    @property
    def calls(self) -> list[str]:
        """Return the calls of the driver so far."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def changes(self) -> list[str]:
        """Return the calls that allocate or deallocate."""
        return [each for each in self.calls if not each.startswith("unsuitable")]

    @property
    def allocated(self) -> dict[str, str]:
        """Return the node of each claim that has a link, by UID."""
        with self._lock():
            return {each.name: each.read_text() for each in (self.folder / "claims").iterdir()}

    def set_free(self, **nodes: int) -> None:
        """Set the number of links of nodes (`__` stands for a hyphen)."""
        with self._lock():
            for node, count in nodes.items():
                file = self.folder / "free" / node.replace("__", "-")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(str(count))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the fabric, which the controller changes meanwhile."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of the controller."""
        return {
            **os.environ,
            "HARDWARE": str(self._hardware),
            "LINK_CONTROLLER": self.name,
            "LINK_PLUGINS": ",".join(self._plugins),
        }

    def command(self, kubeconfig: Path, lease_namespace: str, metrics_port: int) -> Sequence[str]:
        """Return the command that starts the controller."""
        return (
            sys.executable, str(_PROGRAM), f"--kubeconfig={kubeconfig}", "--lease-seconds=30",
            f"--lease-namespace={lease_namespace}", f"--metrics-port={metrics_port}", "--log-level=debug",
        )  # fmt: skip
