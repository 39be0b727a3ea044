"""The MPS daemons as processes of the node, outside of the driver's pod. Blocking.

A daemon has the node's namespaces, a private mount namespace below them, and a cgroup of its own (version 2),
so it outlives the driver's pod. In the private mount namespace, the claim's shared memory is /dev/shm, and the
claim's folder is /run/dradriver-mps. The daemon's root is the folder below which NVIDIA's driver is installed.

Source:
    NVIDIA, Multi-Process Service, "Appendix: Tools and Interface Reference"; unshare(1);
    cgroups(7).
"""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.files import name_path
from dradriver_gpu_mig.mps.cgroups import DaemonCgroups
from dradriver_gpu_mig.mps.daemon import MpsDaemon, name_daemon
from dradriver_gpu_mig.mps.host import MpsFolders, read_log
from dradriver_gpu_mig.mps.node_view import SEARCH, NodeView, run_program
from dradriver_gpu_mig.mps.steps import ObservedDaemon
from dradriver_gpu_mig.settings import MpsSettings

__all__ = ["NodeMpsHost"]

_PROGRAM: Final = "nvidia-cuda-mps-control"
_FOLDER_OF_DAEMON: Final = "/run/dradriver-mps"
_ENVIRONMENT: Final = {
    **SEARCH,
    "CUDA_MPS_PIPE_DIRECTORY": f"{_FOLDER_OF_DAEMON}/pipe",
    "CUDA_MPS_LOG_DIRECTORY": f"{_FOLDER_OF_DAEMON}/log",
}
_SHM_OPTIONS: Final = "mode=1777,nosuid,nodev,noexec"
_NODE_PROGRAMS: Final = ("sh", "setsid", "unshare", "mount", "umount", "chroot", "env", "mkdir", "rm")

_POLL_SECONDS: Final = 0.05

# If the node runs short of memory, the kernel kills processes with a high `oom_score_adj` first. Those of a pod
# have a high value. The daemon gets the value of the node's processes instead.
#
# The containers of the claim can write into its pipe folder. Without links, nothing in it can lead the daemon,
# which is root, to a file of the node. `nosymfollow` needs Linux 5.10 and util-linux 2.37.
_START_SCRIPT: Final = """
set -eu
cgroup=$1 folder=$2 root=$3 target=$4
shift 4
echo $$ > "$cgroup/cgroup.procs"
echo 0 > /proc/self/oom_score_adj
restrict() {
    mount -o remount,bind,nosuid,nodev,noexec,nosymfollow "$1" 2>/dev/null ||
        mount -o remount,bind,nosuid,nodev,noexec "$1"
}
mkdir -p "$root/dev/shm" "$root$target"
mount --bind "$folder/shm" "$root/dev/shm"
restrict "$root/dev/shm"
mount --bind "$folder" "$root$target"
restrict "$root$target"
exec env -i "$@"
"""
"""Runs in the daemon's mount namespace. Every value is an argument, and none becomes part of the script."""


class NodeMpsHost:
    """The MPS daemons of a node.

    Args:
        folder: folder with one folder for each claim. The node and this process have it at the same path.
        driver_root_on_host: folder of the node below which NVIDIA's driver is installed.
        proc: the node's procfs, as this process sees it.
        settings: the operator's settings.
        answer_seconds: seconds in which a daemon must answer a request. After them, it hangs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        driver_root_on_host: Path,
        proc: Path,
        settings: MpsSettings,
        answer_seconds: float = 10.0,
    ) -> None:
        self._folders = MpsFolders(folder)
        self._driver_root = driver_root_on_host
        self._node = NodeView(proc, settings.node_process)
        self._cgroups = DaemonCgroups(self._node, Path(settings.cgroup))
        self._start_seconds = settings.start_seconds
        self._quit_seconds = settings.quit_seconds
        self._answer_seconds = answer_seconds
        self._shared_memory = int(dra.Quantity(settings.shared_memory))

    def check(self, claim: str) -> None:
        """Check that the node has what a daemon needs. Nothing is changed.

        Args:
            claim: UID of the claim, for errors.

        Raises:
            DraError: NVIDIA's program, a program of the node or cgroups of version 2 are missing, or this
                process has no access to the node.
        """
        name, root = name_daemon(claim), Path("/")
        if missing := [each for each in _NODE_PROGRAMS if not self._node.has_program(root, each)]:
            raise dra.DraError(
                f"{name}: the node has no {', '.join(missing)}. A driver in a pod needs hostPID to see the node"
            )
        if not self._node.has_program(self._driver_root, _PROGRAM):
            raise dra.DraError(f"{name}: {_PROGRAM} does not exist below {self._driver_root} of this node")
        self._cgroups.check(claim)

    def observe(self, claim: str) -> ObservedDaemon:
        """Return the state of a claim's daemon.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the node's procfs cannot be read.
        """
        if self._cgroups.list_processes(claim):
            return ObservedDaemon.ANSWERING if self._is_answering(claim) else ObservedDaemon.RUNNING
        return ObservedDaemon.MOUNTED if self._is_mounted(claim) else ObservedDaemon.NOTHING

    def mount(self, claim: str) -> None:
        """Create the claim's folders, and mount a tmpfs on the node at its folder shm.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the node rejects a change.
        """
        self._folders.make(claim)
        shm = str(self._folders.shm(claim))
        options = f"size={self._shared_memory},{_SHM_OPTIONS}"
        self._node.run(claim, "mount", "-t", "tmpfs", "-o", options, "shm", shm)

    def unmount(self, claim: str) -> None:
        """Unmount the claim's tmpfs. Containers that still run keep it.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the node rejects the change.
        """
        self._node.run(claim, "umount", "-l", str(self._folders.shm(claim)))

    def start(self, daemon: MpsDaemon) -> None:
        """Start a daemon, and return when it answers. Sockets of an earlier daemon are removed first.

        Args:
            daemon: the daemon.

        Raises:
            DraError: NVIDIA's program or cgroups of version 2 do not exist, or the daemon does not answer in
                time. The message has the last lines of its log.
        """
        claim = daemon.claim
        deadline = time.monotonic() + self._start_seconds
        self.check(claim)
        self._cgroups.make(claim)
        self._clear_pipe(claim)
        self._launch(daemon)
        while not self._is_answering(claim):
            if not self._cgroups.list_processes(claim):
                raise self._make_start_error(claim, "it ended right after its start")
            if time.monotonic() > deadline:
                raise self._make_start_error(claim, f"it does not answer after {self._start_seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def configure(self, daemon: MpsDaemon) -> None:
        """Send the limits to a daemon that answers, and check that it has them.

        A container that is still running may have connected before, without a limit of its memory. A limit
        applies to new clients only, so the servers of such clients are killed. If the process dies, the next
        one repeats the call, and clients that have connected meanwhile lose their server too.

        Args:
            daemon: the daemon.

        Raises:
            DraError: the daemon rejects a limit, or does not answer in time.
        """
        claim, deadline = daemon.claim, time.monotonic() + self._start_seconds
        if daemon.active_thread_percentage is not None:
            self._limit_threads(claim, daemon.active_thread_percentage, deadline)
        for ordinal, device in enumerate(daemon.devices):
            if device in daemon.memory_limits:
                self._limit_memory(claim, (str(ordinal), device), daemon.memory_limits[device], deadline)
        if daemon.memory_limits:
            self._kill_servers(claim, deadline)

    def stop(self, claim: str) -> None:
        """Ask the daemon to end, wait for a while, and kill what is left in its cgroup.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a process does not end.
        """
        deadline = time.monotonic() + self._quit_seconds
        with suppress(dra.DraError):  # a daemon that does not answer is killed
            self._send(claim, "quit", self._quit_seconds)
        while self._cgroups.list_processes(claim) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        self.kill(claim)

    def kill(self, claim: str) -> None:
        """Send SIGKILL to all processes in the daemon's cgroup, until it is empty.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a process does not end, or is not in the PID namespace of this process.
        """
        deadline = time.monotonic() + self._quit_seconds
        while processes := self._cgroups.list_processes(claim):
            if 0 in processes:
                raise dra.DraError(
                    f"{name_daemon(claim)}: the driver's pod does not have the node's processes (hostPID)"
                )
            if time.monotonic() > deadline:
                pids = ", ".join(map(str, processes))
                raise dra.DraError(f"{name_daemon(claim)}: processes {pids} do not end after SIGKILL")
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)

    def remove(self, claim: str) -> None:
        """Remove the folders of a claim, and its cgroup, if they exist.

        A pod that was started while the tmpfs was mounted keeps a copy of the mount, and the kernel does not
        remove the mount point in the pod. It is then removed in the node's mount namespace.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a folder or the cgroup cannot be removed.
        """
        for folder in (self._folders.pipe(claim), self._folders.log(claim), self._folders.shm(claim)):
            try:
                shutil.rmtree(folder)
            except FileNotFoundError:
                pass
            except OSError:
                self._node.run(claim, "rm", "-rf", "--", str(folder))
        self._cgroups.remove(claim)

    # --- the node ---------------------------------------------------------------------------------

    def _is_mounted(self, claim: str) -> bool:
        try:
            return self._node.is_mount_point(self._folders.shm(claim))
        except OSError as error:
            raise dra.DraError(
                f"{name_daemon(claim)}: the mounts of the node cannot be read: {error}"
            ) from error

    def _clear_pipe(self, claim: str) -> None:
        """Remove what an earlier daemon left. The folder stays, because containers may have mounted it."""
        with name_path(self._folders.pipe(claim), "cleared"):
            for path in self._folders.pipe(claim).iterdir():
                # Containers of the claim may remove files of the folder at the same time.
                with suppress(FileNotFoundError):
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path)
                    else:
                        path.unlink()

    # --- processes --------------------------------------------------------------------------------

    def _launch(self, daemon: MpsDaemon) -> None:
        """Run the program that starts the daemon in the background, and return when the program ends."""
        claim = daemon.claim
        environment = {**_ENVIRONMENT, **_make_variables(daemon)}
        command = [
            *self._node.enter_node(),
            *(
                "setsid",
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "--",
                "sh",
                "-c",
                _START_SCRIPT,
                "sh",
            ),
            *(str(self._cgroups.path(claim)), str(self._folders.claim(claim))),
            *(str(self._driver_root).rstrip("/"), _FOLDER_OF_DAEMON),
            *(f"{name}={value}" for name, value in environment.items()),
            *("chroot", str(self._driver_root), _PROGRAM, "-d", *(["-M"] if daemon.multi_user else [])),
        ]
        # The daemon may keep these files open. With a pipe, this call would wait for the end of the daemon.
        try:
            with (self._folders.log(claim) / "start.log").open("wb") as output:
                run_program(claim, f"{_PROGRAM} -d", command, seconds=self._start_seconds, output=output)
        except OSError as error:
            raise dra.DraError(f"{name_daemon(claim)}: its log cannot be written: {error}") from error
        except dra.DraError as error:
            raise self._make_start_error(claim, str(error)) from error

    def _is_answering(self, claim: str) -> bool:
        try:
            self._send(claim, "get_server_list")
        except dra.DraError:
            return False
        return True

    def _send(self, claim: str, request: str, seconds: float | None = None) -> str:
        """Send a request to a daemon, and return its answer.

        Raises:
            DraError: the daemon has no process, or does not answer.
        """
        limit = self._answer_seconds if seconds is None else seconds
        for pid in self._cgroups.list_processes(claim):
            command = [*self._node.enter(pid, "mnt"), _PROGRAM]
            try:
                return run_program(
                    claim, request, command, seconds=limit, text=f"{request}\n", environment=_ENVIRONMENT
                )
            except dra.DraError:
                if pid in self._cgroups.list_processes(claim):
                    raise
                continue  # this process has just ended: another one has the same view of the node
        raise dra.DraError(f"{name_daemon(claim)}: {request}: it has no process")

    def _limit_threads(self, claim: str, percentage: int, deadline: float) -> None:
        """Set the default percentage.

        NVIDIA's program exits with status 0 even if the daemon rejects the value. The answer is the percentage
        in force.
        """
        request = f"set_default_active_thread_percentage {percentage}"
        answer = self._ask(claim, request, deadline)
        if answer != f"{percentage:.1f}":
            raise dra.DraError(f"{name_daemon(claim)}: {request} is rejected, and answered with {answer!r}")

    def _limit_memory(self, claim: str, names: Sequence[str], mebibytes: int, deadline: float) -> None:
        """Set the default limit of a device, and check that there is one.

        The exit status of NVIDIA's program does not show a rejection. The limit that it answers is rounded, so
        the number is not compared.

        Args:
            claim: UID of the claim.
            names: names of the device. Not every version of the program knows a UUID, or applies its limit
                (NVIDIA/k8s-device-plugin, pull request 572).
            mebibytes: the limit.
            deadline: time of the monotonic clock.
        """
        answers = []
        for name in names:
            self._ask(claim, f"set_default_device_pinned_mem_limit {name} {mebibytes}M", deadline)
            answers.append(self._ask(claim, f"get_default_device_pinned_mem_limit {name}", deadline))
        if not any(answer[:1].isdigit() for answer in answers):
            limit = f"a memory limit of {mebibytes} MiB for {names[-1]} is rejected"
            raise dra.DraError(f"{name_daemon(claim)}: {limit}, and answered with {answers[-1]!r}")

    def _kill_servers(self, claim: str, deadline: float) -> None:
        """Kill the servers that exist, and wait until the daemon knows it. New clients get another server."""
        servers = set(self._ask(claim, "get_server_list", deadline).split())
        for pid in self._cgroups.list_processes(claim):
            if str(pid) in servers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        while servers & set(self._ask(claim, "get_server_list", deadline).split()):
            time.sleep(_POLL_SECONDS)

    def _ask(self, claim: str, request: str, deadline: float) -> str:
        return self._send(claim, request, min(self._answer_seconds, max(0.0, deadline - time.monotonic())))

    def _make_start_error(self, claim: str, reason: str) -> dra.DraError:
        prefix = name_daemon(claim)
        text = reason if reason.startswith(prefix) else f"{prefix}: {reason}"
        return dra.DraError(f"{text}\n{read_log(self._folders.log(claim))}")


def _make_variables(daemon: MpsDaemon) -> dict[str, str]:
    """Return the environment variables with the devices of a daemon and its percentage.

    `configure` checks that the daemon accepts the percentage. The percentage is in the environment too, because
    a container that is still running may connect before `configure` runs. Limits of the memory in the
    environment of a daemon have no effect, so they are not in it.
    """
    variables = {"CUDA_VISIBLE_DEVICES": ",".join(daemon.devices)}
    if daemon.active_thread_percentage is not None:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(daemon.active_thread_percentage)
    return variables
