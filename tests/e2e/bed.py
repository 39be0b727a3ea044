"""A test bed: processes in one folder, started in order, stopped in reverse, nothing left of them.

A component is a function that takes the bed and starts its processes on it: `control_plane.py` has
etcd and kube-apiserver. What else a cluster needs comes the same way, each in a file of its own.
"""

import contextlib
import ctypes
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.credentials import Credentials
from tests.e2e.programs import program

_PR_SET_PDEATHSIG = 1
_STOP_SECONDS = 20.0
_LIBC = ctypes.CDLL(None, use_errno=True)


class BedError(Exception):
    """A component did not come up."""


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Bed:
    """A folder, its credentials, and the processes that run on them.

    Attributes:
        folder: holds all state and logs; removed at the end.
        credentials: certificates and tokens of the cluster.
        url: where the API server listens, "" before there is one.
    """

    def __init__(self) -> None:
        # Under /tmp: sockets need short paths.
        self.folder = Path(tempfile.mkdtemp(prefix="dradriver-bed-", dir="/tmp"))
        self.credentials = Credentials(self.folder / "credentials")
        self.url = ""
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, name: str, *arguments: str) -> None:
        """Start a program, built if need be. It is killed with this process, however that ends."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                (str(program(name)), *arguments), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 -- one system call that takes no lock
            )  # fmt: skip
        self._processes.append((name, process))

    def log(self, name: str) -> Path:
        """Where a program writes."""
        return self.folder / f"{name}.log"

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a component is ready.

        Raises:
            BedError: a process ended, or the time is over; the message has the end of the log.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            ended = [each for each, process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                what = f"{ended[0]} ended" if ended else f"{name} was not ready after {seconds:.0f} s"
                log = self.log(ended[0] if ended else name).read_text(errors="replace")
                raise BedError(f"{what}:\n{log[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop everything in reverse order and remove the folder. Safe to call twice."""
        while self._processes:
            _, process = self._processes.pop()
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
