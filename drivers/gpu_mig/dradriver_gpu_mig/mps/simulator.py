"""MPS daemons without processes, for simulated GPUs and for tests.

The state of a claim's daemon is a file in the claim's folder, so it outlives the process.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

import dradriver as dra
from dradriver_gpu_mig.files import name_path, remove_file, write_file
from dradriver_gpu_mig.mps.daemon import MpsDaemon, name_daemon
from dradriver_gpu_mig.mps.host import MpsFolders, read_log
from dradriver_gpu_mig.mps.steps import ObservedDaemon

__all__ = ["SimulatedDaemon", "SimulatedMpsHost"]


class SimulatedDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """State of a claim's daemon.

    Attributes:
        mounted: whether the shared memory is mounted.
        running: whether the daemon has processes.
        answering: whether the daemon answers.
        devices: the devices with which it was started.
        starts: number of starts.
        active_thread_percentage: the default that it was sent; None: none.
        memory_limits: the defaults that it was sent: UUID of the device -> MiB.
    """

    mounted: bool = False
    running: bool = False
    answering: bool = False
    devices: tuple[str, ...] = ()
    starts: int = 0
    active_thread_percentage: int | None = None
    memory_limits: Mapping[str, int] = {}


class SimulatedMpsHost:
    """Simulates the MPS daemons of a node.

    Args:
        folder: folder with one folder for each claim.
        step: called before and after each change; None: nothing is called.

    Attributes:
        answers: whether a daemon that is started answers.
    """

    def __init__(self, folder: Path, step: Callable[[], None] | None = None) -> None:
        self._folders = MpsFolders(folder)
        self._step = step or (lambda: None)
        self.answers = True

    def check(self, claim: str) -> None:
        """Accept every claim: a simulated daemon needs nothing.

        Args:
            claim: UID of the claim.
        """

    def observe(self, claim: str) -> ObservedDaemon:
        """Return the state of a claim's daemon.

        Args:
            claim: UID of the claim.
        """
        state = self.read(claim)
        if state.answering:
            return ObservedDaemon.ANSWERING
        if state.running:
            return ObservedDaemon.RUNNING
        return ObservedDaemon.MOUNTED if state.mounted else ObservedDaemon.NOTHING

    def mount(self, claim: str) -> None:
        """Create the claim's folders, and record that its shared memory is mounted.

        Args:
            claim: UID of the claim.
        """
        self._step()
        self._folders.make(claim)
        self._change(claim, mounted=True)

    def unmount(self, claim: str) -> None:
        """Record that the claim's shared memory is not mounted.

        Args:
            claim: UID of the claim.
        """
        self._change(claim, mounted=False)

    def start(self, daemon: MpsDaemon) -> None:
        """Record that a daemon runs, and that it answers.

        Args:
            daemon: the daemon.

        Raises:
            DraError: `answers` is False.
        """
        claim = daemon.claim
        starts = self.read(claim).starts + 1
        self._change(claim, running=True, devices=daemon.devices, starts=starts)
        if not self.answers:
            write_file(self._folders.log(claim) / "control.log", b"the simulated daemon does not answer\n")
            raise dra.DraError(
                f"{name_daemon(claim)}: it does not answer:\n{read_log(self._folders.log(claim))}"
            )
        self._change(claim, answering=True, active_thread_percentage=None, memory_limits={})

    def configure(self, daemon: MpsDaemon) -> None:
        """Record the limits.

        Args:
            daemon: the daemon.
        """
        self._change(
            daemon.claim,
            active_thread_percentage=daemon.active_thread_percentage,
            memory_limits=daemon.memory_limits,
        )

    def stop(self, claim: str) -> None:
        """Record that the daemon ended.

        Args:
            claim: UID of the claim.
        """
        self.kill(claim)

    def kill(self, claim: str) -> None:
        """Record that the daemon ended.

        Args:
            claim: UID of the claim.
        """
        self._change(claim, running=False, answering=False)

    def remove(self, claim: str) -> None:
        """Remove the folders of a claim, and its state.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a folder cannot be removed.
        """
        self._step()
        for path in (self._folders.pipe(claim), self._folders.log(claim), self._folders.shm(claim)):
            with name_path(path, "removed"):
                if path.exists():
                    shutil.rmtree(path)
        state = self._path(claim)
        remove_file(state.with_suffix(".new"))
        remove_file(state)
        self._step()

    def hang(self, claim: str) -> None:
        """Let a daemon stop answering.

        Args:
            claim: UID of the claim.
        """
        self._change(claim, answering=False)

    def read(self, claim: str) -> SimulatedDaemon:
        """Return the state of a claim's daemon with its limits.

        Args:
            claim: UID of the claim.
        """
        try:
            return msgspec.json.decode(self._path(claim).read_bytes(), type=SimulatedDaemon)
        except FileNotFoundError:
            return SimulatedDaemon()

    def _path(self, claim: str) -> Path:
        return self._folders.claim(claim) / "simulated.json"

    def _change(self, claim: str, **changes: object) -> None:
        self._step()
        state = msgspec.structs.replace(self.read(claim), **changes)
        write_file(self._path(claim), msgspec.json.encode(state))
        self._step()
