"""Two nodes for the same tests: one with simulated MPS daemons, one with processes of a fake program."""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

import pytest

from dradriver_gpu_mig.mps import (
    MpsDaemon,
    MpsDaemons,
    MpsDaemonStore,
    MpsFolders,
    MpsHost,
    NodeMpsHost,
    SimulatedMpsHost,
    node_processes,
)
from dradriver_gpu_mig.settings import MpsSettings
from tests.e2e.bed import cgroups

GPU = "GPU-5a7c1d9e-0000-4000-8000-000000000001"
OTHER_GPU = "GPU-5a7c1d9e-0000-4000-8000-000000000002"

PROGRAM = "nvidia-cuda-mps-control"
CONTROL_PROGRAM = Path(__file__).with_name("control_program.py")
LONG_SECONDS = 30.0
"""Limit for what a slow machine does in the end."""
HUNG_SECONDS = 0.5
"""Limit for the answers of a daemon that is stopped."""
ROOT_FOLDERS = ("usr", "lib", "lib64", "bin", "proc")
MAKE_NODE = """
set -eu
root=$1
shift
for name in "$@"; do mount --bind "/$name" "$root/$name"; done
echo ready
read -r _ # no program is started after "ready": a test may hide all of them
"""


def make_daemon(claim: str, *, percentage: int | None = 50, limit: int = 1024) -> MpsDaemon:
    return MpsDaemon(
        claim=claim, devices=(GPU,), active_thread_percentage=percentage, memory_limits={GPU: limit}
    )


class MpsBench(Protocol):
    """A node, its records, and what a test does to its daemons."""

    folder: Path

    def host(self) -> MpsHost: ...

    def end(self, claim: str) -> None: ...

    def hang(self, claim: str) -> None: ...

    def break_program(self) -> None: ...

    def repair_program(self) -> None: ...

    def reboot(self, claim: str) -> None: ...

    def limits(self, claim: str) -> tuple[int | None, dict[str, int]]: ...

    def identity(self, claim: str) -> int: ...

    def remains(self, claim: str) -> list[str]: ...


def open_daemons(bench: MpsBench) -> MpsDaemons:
    """Return the daemons as a process sees them that has just started."""
    return MpsDaemons(MpsDaemonStore(bench.folder), bench.host(), MpsFolders(bench.folder))


class SimulatedBench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mps"
        self._hosts: list[SimulatedMpsHost] = []
        self._answers = True

    def host(self) -> SimulatedMpsHost:
        host = SimulatedMpsHost(self.folder)
        host.answers = self._answers
        self._hosts.append(host)
        return host

    def end(self, claim: str) -> None:
        SimulatedMpsHost(self.folder).kill(claim)

    def hang(self, claim: str) -> None:
        SimulatedMpsHost(self.folder).hang(claim)

    def break_program(self) -> None:
        self._set_answers(answers=False)

    def repair_program(self) -> None:
        self._set_answers(answers=True)

    def _set_answers(self, *, answers: bool) -> None:
        self._answers = answers
        for host in self._hosts:
            host.answers = answers

    def reboot(self, claim: str) -> None:
        host = SimulatedMpsHost(self.folder)
        host.kill(claim)
        host.unmount(claim)

    def limits(self, claim: str) -> tuple[int | None, dict[str, int]]:
        state = SimulatedMpsHost(self.folder).read(claim)
        return state.active_thread_percentage, dict(state.memory_limits)

    def identity(self, claim: str) -> int:
        return SimulatedMpsHost(self.folder).read(claim).starts

    def remains(self, claim: str) -> list[str]:
        return [str(path) for path in self.folder.iterdir()]

    def close(self) -> None:
        """Nothing is left to close."""


class SkippedTime:
    """The functions of `time` that the host uses. Tests skip the time of a wait that can only end in vain."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class BenchHost(NodeMpsHost):
    """Waits long for each answer, except for those of daemons that hang or never answer."""

    def __init__(self, bench: "NodeBench") -> None:
        super().__init__(
            bench.folder,
            driver_root_on_host=bench.root,
            proc=Path("/proc"),
            settings=bench.settings(),
            answer_seconds=LONG_SECONDS,
        )
        self._bench = bench

    def _send(self, claim: str, request: str, seconds: float | None = None) -> str:
        return super()._send(claim, request, HUNG_SECONDS if self._bench.hangs(claim) else seconds)

    def _is_answering(self, claim: str) -> bool:
        is_answering = super()._is_answering(claim)
        if not is_answering and self._bench.never_answers(claim):
            self._bench.time.skip(LONG_SECONDS)
        return is_answering


class NodeBench:
    """A node in a mount namespace of its own. Its driver root has the fake program."""

    def __init__(self, folder: Path) -> None:
        if reason := find_missing_right():
            pytest.skip(reason)
        self.folder, self.root = folder / "mps", folder / "driver root"
        self._group = f"dradriver-test-{uuid.uuid4()}"
        self.cgroup_root = find_cgroups() / self._group
        self.cgroup_root.mkdir()
        for name in (*ROOT_FOLDERS, "sbin", "run", "tmp/nvidia-mps", "dev/shm"):
            (self.root / name).mkdir(parents=True)
        program = self.root / "sbin" / PROGRAM
        shutil.copyfile(CONTROL_PROGRAM, program)
        program.chmod(0o755)
        present = [name for name in ROOT_FOLDERS if Path("/", name).exists()]
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MAKE_NODE, "sh"]
        self.node = subprocess.Popen(
            [*command, str(self.root), *present],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.node.stdout is not None
        assert self.node.stdout.readline() == b"ready\n"
        self._stopped: set[int] = set()
        self.time = SkippedTime()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(node_processes, "time", self.time)

    def host(self) -> NodeMpsHost:
        return BenchHost(self)

    def settings(self) -> MpsSettings:
        cgroup = str(self.cgroup_root)
        return MpsSettings(node_process=self.node.pid, cgroup=cgroup, start_seconds=LONG_SECONDS)

    def end(self, claim: str) -> None:
        cgroups.kill(self._cgroup(claim))

    def hang(self, claim: str) -> None:
        for pid in self.processes(claim):
            os.kill(pid, signal.SIGSTOP)
            self._stopped.add(pid)

    def break_program(self) -> None:
        (self.root / "run/never-answers").touch()

    def repair_program(self) -> None:
        (self.root / "run/never-answers").unlink()

    def reboot(self, claim: str) -> None:
        self.end(claim)
        self.run("umount", str(self.folder / claim / "shm"))

    def limits(self, claim: str) -> tuple[int | None, dict[str, int]]:
        state = self.state(claim)
        return state["percentage"], state["limits"]

    def identity(self, claim: str) -> int:
        return int(self.state(claim)["pid"])

    def remains(self, claim: str) -> list[str]:
        processes = [str(pid) for pid in cgroups.list_processes(self._group)]
        mounts = [line for line in self.mounts() if str(self.folder) in line]
        groups = [str(path) for path in self.cgroup_root.glob("*/*") if path.is_dir()]
        return [*processes, *mounts, *groups, *(str(path) for path in self.folder.iterdir())]

    # --- only a node with processes has these -------------------------------------------------------

    def state(self, claim: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / claim / "log/state.json").read_text()))

    def processes(self, claim: str) -> set[int]:
        return cgroups.list_processes(self._cgroup(claim))

    def hangs(self, claim: str) -> bool:
        return not self._stopped.isdisjoint(self.processes(claim))

    def never_answers(self, claim: str) -> bool:
        """Return whether the daemon has logged that it will not listen."""
        log = self.folder / claim / "log/control.log"
        return (
            (self.root / "run/never-answers").exists()
            and log.exists()
            and "no CUDA-capable device" in log.read_text()
        )

    def mounts(self, pid: int | None = None) -> list[str]:
        return Path("/proc", str(pid or self.node.pid), "mountinfo").read_text().splitlines()

    def run(self, *command: str, text: str = "") -> str:
        """Run a command in the mount namespace of the node."""
        enter = ("nsenter", "--target", str(self.node.pid), "--mount", "--")
        done = subprocess.run([*enter, *command], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        self._patch.undo()
        cgroups.kill(self._group)
        cgroups.remove(self._group)
        self.node.kill()
        with self.node:
            pass

    def _cgroup(self, claim: str) -> str:
        return f"{self._group}/dradriver-mps/{claim}"


def find_cgroups() -> Path:
    """Return the folder at which cgroups of version 2 are mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return next((Path(line.split()[4]) for line in lines if " - cgroup2 " in line), Path("/nonexistent"))


@functools.cache
def find_missing_right() -> str:
    """Return why this machine cannot run daemons in namespaces and cgroups; "" if it can."""
    if os.geteuid() != 0:
        return "only root enters mount namespaces"
    if missing := [name for name in ("nsenter", "unshare", "setsid") if shutil.which(name) is None]:
        return f"this machine has no {', '.join(missing)}"
    if not Path("/usr/bin/python3").exists():
        return "the fake program needs /usr/bin/python3"
    probe = find_cgroups() / f"dradriver-test-{uuid.uuid4()}"
    try:
        probe.mkdir()
    except OSError as error:
        return f"cgroups of version 2 are not writable: {error}"
    with contextlib.suppress(OSError):
        probe.rmdir()
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "probe", "/mnt"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"mounts are not permitted: {tried.stderr.decode().strip()}"
