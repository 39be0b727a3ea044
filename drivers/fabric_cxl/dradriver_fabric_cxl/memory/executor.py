"""Executes make and take back: reads the kernel, asks `steps` for the next step, and does it."""

import contextlib
import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from dradriver_fabric_cxl.memory.actions import (
    BindDax,
    BindRegion,
    BringOffline,
    BringOnline,
    CommitRegion,
    DeleteRegion,
    MakeRegion,
    Ready,
    Release,
    Stuck,
    TakeBackStep,
    TakenBack,
    UnbindDax,
    UnbindRegion,
    UncommitRegion,
    WaitForKernel,
)
from dradriver_fabric_cxl.memory.errors import (
    CxlMemoryError,
    MemoryDeviceNotFoundError,
    MemoryInUseError,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.memory.hardware import Memory
from dradriver_fabric_cxl.memory.kernel import CxlKernel, DaxDevice, DaxDriver, KernelState, Memdev
from dradriver_fabric_cxl.memory.steps import (
    choose_root,
    find_memdev,
    find_node_problem,
    is_abandoned,
    next_make_step,
    next_removal_step,
    next_take_back_step,
    to_device,
)
from dradriver_fabric_cxl.memory.values import MemoryDevice, MemoryMode, UsableMemory

__all__ = ["KernelMemory"]

_Change: TypeAlias = MakeRegion | CommitRegion | BindRegion | BindDax | UnbindDax | BringOffline | BringOnline
"""A step of `make` that changes the kernel."""

_log: Final = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 10.0
"""Seconds until the kernel must have made a device."""
_POLL_SECONDS: Final = 0.05
"""Seconds between two looks at the kernel."""
_MAX_STEPS: Final = 1000
"""Steps after which a call gives up: somebody else changes the same memory all the time."""


class KernelMemory(Memory):
    """`Memory` over a kernel. Subclasses open it and report changes.

    Args:
        kernel: the kernel.
        lock_file: file that is locked while a region has no target yet, so that the region does not count as
            abandoned for another process. Its folder must exist. None: no other process works on the memory.
    """

    def __init__(self, kernel: CxlKernel, lock_file: Path | None = None) -> None:
        self._kernel = kernel
        self._lock_file = lock_file
        self._thread_lock = threading.Lock()

    def find_problem(self) -> str:
        """See `Memory`."""
        return find_node_problem(self._kernel.read())

    def devices(self) -> tuple[MemoryDevice, ...]:
        """See `Memory`."""
        state = self._kernel.read()
        found = (to_device(state, each, self._kernel.health(each.name)) for each in state.memdevs)
        return tuple(sorted(found, key=lambda each: each.serial))

    def make(self, serial: int, mode: MemoryMode) -> UsableMemory:
        """See `Memory`."""
        deadline = time.monotonic() + _WAIT_SECONDS
        for _ in range(_MAX_STEPS):
            state, memdev = self._find(serial)
            step = next_make_step(state, memdev, mode)
            if isinstance(step, Ready):
                return step.usable
            if isinstance(step, WaitForKernel):
                if time.monotonic() >= deadline:
                    raise CxlMemoryError(
                        f"{step.missing} did not appear in {_WAIT_SECONDS:g} s (are the kernel modules cxl_mem,"
                        " dax_cxl and kmem loaded?)"
                    )
                time.sleep(_POLL_SECONDS)
                continue
            if mode is MemoryMode.SYSTEM_RAM and isinstance(step, BindDax | BringOffline | BringOnline):
                self._bring_online(step, serial)
            else:
                self._do_make_step(step, state)
            deadline = time.monotonic() + _WAIT_SECONDS
        raise CxlMemoryError(f"memory {serial:#x}: not made in {_MAX_STEPS} steps")

    def clear(self, serial: int, proceed: Callable[[int], bool]) -> None:
        """See `Memory`."""
        state, memdev = self._find(serial)
        step = next_make_step(state, memdev, MemoryMode.DEVDAX)
        if not isinstance(step, Ready):
            raise CxlMemoryError(f"{memdev.name}: its memory is not in the mode devdax")
        dax = next(dax for region in state.regions for dax in region.dax if dax.name == step.usable.dax)
        self._check_unused(dax)
        if not self._kernel.clear(dax, proceed):
            raise CxlMemoryError(f"{dax.name}: clearing was stopped")

    def take_back(self, serial: int) -> None:
        """See `Memory`."""

        def decide(state: KernelState) -> TakeBackStep:
            memdev = find_memdev(state, serial)
            return TakenBack() if memdev is None else next_take_back_step(state, memdev)

        self._remove(decide, f"memory {serial:#x}")
        if find_memdev(self._kernel.read(), serial) is None:
            self._bring_abandoned_offline()
        with self._lock_unfinished():
            self._remove_unfinished()

    def remove_abandoned(self) -> tuple[str, ...]:
        """See `Memory`."""
        self._bring_abandoned_offline()
        with self._lock_unfinished():
            return self._remove_unfinished()

    @contextlib.contextmanager
    def _lock_unfinished(self) -> Iterator[None]:
        """Keep other threads and processes from making or removing regions without a target."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._thread_lock)
            if self._lock_file is not None:
                try:
                    file = stack.enter_context(self._lock_file.open("w"))
                except OSError as error:
                    raise CxlMemoryError(f"{self._lock_file}: cannot be opened: {error.strerror}") from error
                fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases the lock, also after a kill
            yield

    def _bring_abandoned_offline(self) -> None:
        """Bring system RAM of pulled devices offline: the kernel would give it to programs."""
        for region in self._kernel.read().regions:
            online = tuple(block.name for block in region.blocks if block.online)
            if is_abandoned(region) and online:
                with contextlib.suppress(MemoryInUseError):  # what is offline then stays offline
                    self._kernel.offline(online)

    def _find(self, serial: int) -> tuple[KernelState, Memdev]:
        state = self._kernel.read()
        memdev = find_memdev(state, serial)
        if memdev is None:
            raise MemoryDeviceNotFoundError(f"no memory device with serial number {serial:#x} is plugged in")
        return state, memdev

    def _do_make_step(self, step: _Change, state: KernelState) -> None:
        match step:
            case MakeRegion(memdev):
                if problem := find_node_problem(state):
                    raise NodeUnsupportedError(problem)
                self._make_region(memdev)
            case CommitRegion(region):
                self._kernel.commit(region)
            case BindRegion(region):
                self._kernel.claim_dax(region)
                self._kernel.bind_region(region)
            case BindDax(dax, driver):
                self._kernel.bind_dax(dax, driver)
            case UnbindDax(dax):
                self._unbind(dax)
            case BringOffline(blocks):
                self._bring_offline(blocks)
            case BringOnline(blocks):
                self._kernel.online(blocks)

    def _make_region(self, memdev: Memdev) -> None:
        """Make a region with the whole memory of a device.

        If the process dies before the region has its target, the region counts as abandoned.
        """
        with self._lock_unfinished():
            self._remove_unfinished()
            root = choose_root(self._kernel.read(), memdev)
            if root is None:
                raise NoAddressSpaceError(
                    f"{memdev.name}: no CXL window that reaches it has {memdev.bytes >> 20} MiB left"
                )
            decoder = memdev.decoders[0].name
            self._kernel.reserve(decoder, memdev.bytes)
            region = self._kernel.create_region(root.name)
            self._kernel.set_size(region, memdev.bytes)
            self._kernel.set_target(region, decoder)

    def _bring_online(self, step: BindDax | BringOffline | BringOnline, serial: int) -> None:
        """Do a step towards system RAM; if it fails, take the memory back, as far as that is possible."""
        try:
            self._do_make_step(step, self._kernel.read())
        except CxlMemoryError as error:
            try:
                self.take_back(serial)
            except CxlMemoryError as stays:
                raise CxlMemoryError(f"{error}; it cannot be taken back: {stays}") from error
            raise CxlMemoryError(f"memory {serial:#x} cannot be brought online as movable: {error}") from error

    def _unbind(self, dax: DaxDevice) -> None:
        if dax.driver is DaxDriver.DEVDAX:
            self._check_unused(dax)
        self._kernel.unbind_dax(dax.name)

    def _check_unused(self, dax: DaxDevice) -> None:
        if user := self._kernel.find_user(dax):
            raise MemoryInUseError(f"{dax.name} is in use: {user}")

    def _remove_unfinished(self) -> tuple[str, ...]:
        removed = []
        for region in self._kernel.read().regions:
            if not is_abandoned(region):
                continue
            name = region.name

            def decide(state: KernelState, name: str = name) -> TakeBackStep:
                found = next((each for each in state.regions if each.name == name), None)
                return TakenBack() if found is None else next_removal_step(found)

            try:
                self._remove(decide, name)
                removed.append(name)
            except CxlMemoryError as error:
                _log.warning("the abandoned region stays: %s", error)
        return tuple(removed)

    def _remove(self, decide: Callable[[KernelState], TakeBackStep], name: str) -> None:
        for _ in range(_MAX_STEPS):
            step = decide(self._kernel.read())
            match step:
                case TakenBack():
                    return
                case Stuck(region, block):
                    raise MemoryInUseError(
                        f"{region}: the kernel still has {block} of its memory: it goes away at the next reboot"
                    )
                case BringOffline(blocks):
                    self._bring_offline(blocks)
                case UnbindDax(dax):
                    self._unbind(dax)
                case UnbindRegion(region):
                    self._kernel.unbind_region(region)
                case UncommitRegion(region):
                    self._kernel.uncommit(region)
                case DeleteRegion(region):
                    self._kernel.disclaim_dax(region)
                    self._kernel.delete_region(region)
                case Release(decoder):
                    self._kernel.reserve(decoder, 0)
        raise CxlMemoryError(f"{name}: not taken back in {_MAX_STEPS} steps")

    def _bring_offline(self, blocks: tuple[str, ...]) -> None:
        """Bring blocks offline; if one stays online, all stay."""
        try:
            self._kernel.offline(blocks)
        except MemoryInUseError:
            now = [block for region in self._kernel.read().regions for block in region.blocks]
            offline = [block.name for block in now if not block.online and block.name in blocks]
            with contextlib.suppress(CxlMemoryError):  # then the memory is partly online, and stays held
                self._kernel.online(offline)
            raise
