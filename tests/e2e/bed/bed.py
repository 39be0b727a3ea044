"""A test bed: processes in one folder, started in order and stopped in reverse order.

A component is a function that starts its processes on a bed: `control_plane.py` has etcd and kube-apiserver.
Each other component of a cluster has a file of its own.
"""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.bed.changes import Changes
from tests.e2e.bed.credentials import Credentials
from tests.e2e.bed.network import Network
from tests.e2e.bed.programs import program

_STOP_SECONDS = 20.0


class BedError(Exception):
    """A component did not start."""


class Bed:
    """A folder, its credentials, and the processes that use them.

    Attributes:
        folder: holds all state and logs; removed at the end.
        changes: the record of its changes to the machine.
        network: the addresses of the bed.
        credentials: certificates and tokens of the cluster.
        url: the URL of the API server, "" before its start.
    """

    def __init__(self) -> None:
        self.changes = Changes.begin()
        self.folder = self.changes.folder
        self.network = Network(self.changes.number)
        self.credentials = Credentials(self.folder / "credentials", self.network.api)
        self.url = ""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ends = ExitStack()
        # A child is killed when the *thread* that started it ends: this one lives as long as the bed.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="bed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, name: str, *arguments: str) -> None:
        """Start a program and build it if needed. It is killed when this process ends."""
        self.spawn(name, str(program(name)), *arguments)

    def spawn(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> int:
        """Start a command that the bed ends; return its process ID. A name is free again after its end."""
        process = self._starter.submit(self._spawn, name, command, environment or {}).result()
        self._running[name] = process
        self._ends.callback(self.end, name)
        return process.pid

    def _spawn(
        self, name: str, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            # No code of ours between fork and exec: gRPC's threads may crash it.
            return subprocess.Popen(
                ("setpriv", "--pdeathsig", "KILL", *command), cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip

    def pid(self, name: str) -> int:
        """Return the process ID of a running process."""
        return self._running[name].pid

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a process of the bed and wait for it; kill it after a time limit. Safe to call twice."""
        process = self._running.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def suspend(self, name: str) -> Iterator[None]:
        """Stop a process of the bed, and continue it at the end."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    def at_end(self, action: Callable[[], None]) -> None:
        """Register an action that runs when the bed stops, in reverse order of registration."""
        self._ends.callback(action)

    def get(self, path: str) -> dict[str, Any]:
        """Return an object of the API server, as admin.

        Raises:
            OSError: no answer, or not with the object.
        """
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.credentials.token('admin')}"}
        )
        context = ssl.create_default_context(cafile=str(self.credentials.ca_file))
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as admin and return its output. Blocking.

        Raises:
            BedError: it failed; the message has its output.
        """
        command = (
            str(program("kubectl")), f"--kubeconfig={self.credentials.write_kubeconfig(self.url, 'admin')}",
            f"--cache-dir={self.folder / 'kubectl'}", *arguments,
        )  # fmt: skip
        done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise BedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def log(self, name: str) -> Path:
        """Return the path of a program's log."""
        return self.folder / f"{name}.log"

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a component is ready.

        Raises:
            BedError: a process ended, or the time is over; the message has the end of the log.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            running = list(self._running.items())
            ended = [(each, code) for each, process in running if (code := process.poll()) is not None]
            if ended or time.monotonic() > deadline:
                what = f"{name} was not ready after {seconds:.0f} s"
                if ended:
                    name, code = ended[0]
                    what = f"{name} ended with {code}"
                raise BedError(f"{what}:\n{self.log(name).read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop all processes in reverse order and revert the changes. Safe to call twice."""
        self._ends.close()
        self._starter.shutdown()
        self.changes.undo()
