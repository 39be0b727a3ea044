"""Prepared state: the claims on this node, in one SQLite file that survives crashes and reboots.

One thread owns the connection. Requests of one iteration of the event loop, and requests that arrive while
files or another transaction are written, are committed together. Eight concurrent prepares cost the disk little
more than one. A second process may have the file open too (rolling update), so every writing transaction takes
the write lock first.

The thread also writes the files of a claim, right before the transaction that records them, because a change of
threads costs as much as writing a file. Each system call in the thread releases the interpreter to the event
loop, and then waits to get it back. Therefore the thread makes as few as possible.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from dradriver.aio.tasks import Unstoppable, deliverable
from dradriver.node.errors import StateError
from dradriver.node.state.database import Opened, connect, identity, is_busy, staying
from dradriver.node.state.rows import Rows
from dradriver.node.state.tables import is_damage

__all__ = ["StateStore"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class _SpoiledError(Exception):
    """Work failed after it had changed rows: its transaction must be rolled back."""


@dataclass(slots=True)
class _Job:
    """Work on the rows, and the future for its result."""

    work: Callable[[Rows], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    writes: bool
    first: Callable[[], object] | None = None
    outcome: Any = None
    error: BaseException | None = field(default=None)

    def run(self, rows: Rows) -> None:
        try:
            self.outcome, self.error = self.work(rows), None
        except sqlite3.Error:
            raise
        except BaseException as error:  # the error is for the caller
            self.error = deliverable(error)

    def begin(self) -> None:
        if self.first is not None:
            try:
                self.first()
            except Exception as error:  # the error is for the caller
                self.error = deliverable(error)
            except BaseException as error:  # and this one is for the code that runs the event loop
                self.error = error

    def settle(self) -> None:
        if self.future.done():
            return  # the caller was canceled meanwhile
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outcome)


_Queue: TypeAlias = "queue.SimpleQueue[_Job | None]"


class StateStore:
    """The prepared state of one driver on this node: `await open()`, and `await close()` at the end.

    Args:
        path: the SQLite file.
        boot_id: the current boot, which is stored in every written row.
        on_aside: called with the new path of an unreadable file that was set aside, in any thread.
    """

    def __init__(self, path: Path, boot_id: str, on_aside: Callable[[Path], None] = lambda _: None) -> None:
        self.path = path
        self.boot_id = boot_id
        self._on_aside = on_aside
        self._jobs: _Queue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._opened: Opened
        self._rows: Rows
        self._readable = True

    async def open(self) -> Path | None:
        """Open or create the file.

        Returns:
            The new path of an unreadable file that was set aside; the state must then be rebuilt. Otherwise
            None.

        Raises:
            StateError: the file cannot be opened or created.
        """
        self._opened = await asyncio.to_thread(self._connect)
        self._rows = Rows(self._opened.connection, self.boot_id)
        self._thread = threading.Thread(target=self._serve, name="prepared-state", daemon=True)
        self._thread.start()
        return self._opened.aside

    async def close(self) -> None:
        """End the thread after all earlier requests; later requests are rejected."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def write(self, work: Callable[[Rows], T], *, first: Callable[[], object] | None = None) -> T:
        """Run `work` in a transaction; when this returns, its changes are on disk.

        Args:
            work: may run twice (the first run was then rolled back), so it must only change the rows.
            first: runs once before the transaction, and may block on the disk. If the process dies right after
                it, the transaction has not begun.

        Raises:
            StateError: not written, no row has changed: disk full, file damaged.
            Exception: the exception of `first` (`work` has not run), or of `work` (no row has changed).
        """
        return await self._ask(work, writes=True, first=first)

    async def read(self, work: Callable[[Rows], T]) -> T:
        """Run `work`, which must not change anything.

        Raises:
            StateError: the file cannot be read.
        """
        return await self._ask(work, writes=False)

    async def _ask(
        self, work: Callable[[Rows], T], *, writes: bool, first: Callable[[], object] | None = None
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = Unstoppable(loop=loop)
        self._hand_over(_Job(work, loop, future, writes, first))
        return await future

    def _hand_over(self, job: _Job) -> None:
        if self._thread is not None:
            self._jobs.put(job)
        else:
            job.error = StateError(f"{self.path} is closed")
            job.settle()

    def _serve(self) -> None:
        ended = False
        while not ended:
            jobs: list[_Job] = []
            # Requests that arrive while files are written are committed with them.
            while not (ended or (jobs and self._jobs.empty())):
                if job := self._jobs.get():
                    job.begin()
                    jobs.append(job)
                ended = job is None
            if ready := [job for job in jobs if job.error is None]:
                self._do(ready)
            for loop, told in groupby(jobs, key=attrgetter("loop")):
                self._deliver(loop, list(told))
        self._opened.connection.close()

    def _do(self, jobs: list[_Job]) -> None:
        try:
            with self._file() as rows:
                self._work(rows, jobs)
        except (OSError, StateError) as error:
            for job in jobs:
                job.error = StateError(f"prepared state {self.path}: {error}")
        except BaseException as error:  # a defect; a thread that has ended would never answer
            _log.exception("prepared state %s", self.path)
            self._readable = False  # the file may be the cause: the next request checks it
            for job in jobs:
                job.error = StateError(f"prepared state {self.path}: internal error: {error!r}")

    @contextmanager
    def _file(self) -> Iterator[Rows]:
        """Yield the rows of the file that has our name, and keep the name meanwhile.

        Another process or an admin may have set the file aside. Writes to a file with another name would be
        lost. If the process dies here, the kernel releases the lock.
        """
        while True:
            with staying(self.path):
                if self._readable and identity(self.path) == self._opened.identity:
                    yield self._rows
                    return
            _log.error("prepared state %s was replaced or damaged, opening it again", self.path)
            opened = self._connect()
            # SQLite checks whether a file was moved before it removes the files that belong to its name.
            self._opened.connection.close()
            self._opened, self._readable = opened, True
            self._rows = Rows(opened.connection, self.boot_id)

    def _connect(self) -> Opened:
        opened = connect(self.path)
        if opened.aside is not None:
            self._on_aside(opened.aside)
        return opened

    def _work(self, rows: Rows, jobs: Sequence[_Job]) -> None:
        self._run(rows, [job for job in jobs if job.writes])
        for job in jobs:
            if not job.writes:
                self._attempt(job, partial(self._read, rows, job))

    def _run(self, rows: Rows, jobs: list[_Job]) -> None:
        """Run all jobs in one transaction; if the disk, the file or a job fails it, each job in its own.

        If another process kept the file locked for SQLite's whole waiting time, all jobs fail: each of them
        could wait as long again.
        """
        if len(jobs) > 1:
            try:
                self._transaction(rows, jobs)
            except sqlite3.Error as error:
                if is_busy(error):
                    for job in jobs:
                        job.error = self._unusable(error)
                    return
                _log.debug("a common transaction failed, trying one by one: %s", error)
            except _SpoiledError:
                _log.debug("work that failed halfway is rolled back, trying one by one")
            else:
                return
        for job in jobs:
            with suppress(_SpoiledError):
                self._attempt(job, partial(self._transaction, rows, [job]))

    def _attempt(self, job: _Job, run: Callable[[], None]) -> None:
        try:
            run()
        except sqlite3.Error as error:
            job.error = self._unusable(error)

    def _unusable(self, error: sqlite3.Error) -> StateError:
        self._readable = not is_damage(error)
        return StateError(f"prepared state {self.path}: {error}")

    @staticmethod
    def _read(rows: Rows, job: _Job) -> None:
        rows.refresh()
        job.run(rows)

    def _transaction(self, rows: Rows, jobs: Sequence[_Job]) -> None:
        """Run one transaction; if the process dies before COMMIT returns, all or nothing of it is stored."""
        connection = self._opened.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows.refresh()
            for job in jobs:
                _run_whole(connection, job, rows)
            connection.execute("COMMIT")
        except BaseException:
            rows.forget()
            # After some errors, such as a full disk, SQLite has already rolled back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @staticmethod
    def _deliver(loop: asyncio.AbstractEventLoop, jobs: list[_Job]) -> None:
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:
            _log.debug("the loop that asked is closed")


def _run_whole(connection: sqlite3.Connection, job: _Job, rows: Rows) -> None:
    before = connection.total_changes
    job.run(rows)
    if job.error is not None and connection.total_changes != before:
        raise _SpoiledError


def _settle(jobs: Iterable[_Job]) -> None:
    for job in jobs:
        job.settle()
