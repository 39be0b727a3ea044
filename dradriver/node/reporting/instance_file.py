"""Write the readiness of each instance of a driver to a small file for `dradriver node status`.

No other part depends on the file. The file is written shortly after a change. If the process is killed, the
file stays, but no process serves the socket that the file names. So readers find that the instance is gone. The
start of the next instance removes the file.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dradriver.aio.tasks import await_thread
from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.node.kubelet.sockets import is_served
from dradriver.node.reporting.metrics import NodeMetrics

__all__ = ["InstanceFile", "InstanceReport", "read_instances", "remove_stale_instances"]

_log = logging.getLogger(__name__)

_SUFFIX: Final = ".instance.json"
_SECONDS: Final = 1.0
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class InstanceReport:
    """The last report of an instance.

    Attributes:
        service: the socket on which the kubelet calls the instance.
        missing: why the instance is not ready. Empty if it is ready.
        since: the time at which the instance wrote the report, in seconds since the epoch.
    """

    service: str
    missing: str
    since: float

    @property
    def runs(self) -> bool:
        """Return whether a process serves the socket; blocks for a short time."""
        return is_served(Path(self.service))


def read_instances(data_dir: Path) -> list[InstanceReport]:
    """Return the running and the killed instances of this data directory's driver; blocks on the disk.

    Raises:
        StateError: a file cannot be read.
    """
    return [_read(path) for path in _paths(data_dir)]


def remove_stale_instances(data_dir: Path) -> None:
    """Remove the files of killed instances; blocks on the disk.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in _paths(data_dir):
        try:
            is_stale = not _read(path).runs
        except StateError:
            is_stale = True
        if is_stale:
            atomic.remove(path)


def _paths(data_dir: Path) -> list[Path]:
    return sorted(path for path in data_dir.glob(f"*{_SUFFIX}") if not path.name.startswith("."))


def _read(path: Path) -> InstanceReport:
    try:
        return msgspec.json.decode(atomic.read(path), type=InstanceReport)
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"instance status {path}: cannot be read: {error}") from error


class InstanceFile:
    """Writes the file of one instance.

    Call `run()`, which runs until it is canceled, and then `remove()`.

    Args:
        data_dir: the driver's data directory.
        service: the instance's socket, whose name is unique.
        missing: returns why the instance is not ready. Empty if it is ready.
        metrics: counts failures.
    """

    def __init__(self, data_dir: Path, service: Path, missing: Callable[[], str], metrics: NodeMetrics) -> None:
        self._path = data_dir / f"{service.stem}{_SUFFIX}"
        self._service = service
        self._missing = missing
        self._metrics = metrics

    async def run(self) -> None:
        """Write the file when the report has changed, at most once a second.

        If only a number in the report's text has changed, the file is not written.
        """
        loop = asyncio.get_running_loop()
        written: str | None = None
        while True:
            await asyncio.sleep(_SECONDS)
            missing = self._missing()
            if (new := _NUMBERS.sub("", missing)) == written:
                continue
            data = msgspec.json.encode(InstanceReport(str(self._service), missing, time.time()))
            written = new  # set even if the write fails, so that each change is logged once
            try:
                await await_thread(loop.run_in_executor(None, atomic.write_atomically, self._path, data))
            except OSError as error:
                _log.warning("instance status for `dradriver node status`: cannot be written: %s", error)
                self._metrics.background_error("instance status")

    async def remove(self) -> None:
        """Remove the file at the end of the instance; if that fails, the next instance removes it."""
        try:
            await asyncio.to_thread(atomic.remove, self._path)
        except OSError as error:
            _log.warning("instance status %s: cannot be removed: %s", self._path, error)
