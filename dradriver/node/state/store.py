"""Prepared state: which claims are on this node, in one SQLite file that survives crashes and reboots.

One thread owns the connection. What is asked for in one round of the event loop, or while files or another
transaction are written, is committed together: eight prepares side by side cost the disk little more than
one. A second process may have the file open too (rolling update): every writing transaction takes the write
lock first.

The thread does the files of a claim too, right before the transaction that says that they are done: each
change of threads costs as much as writing a file. Every step in the thread that calls the system lets the event
loop run, and has to wait for it afterwards; so it does as few as it can.
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
    """Work has failed after it had changed rows: nothing of its transaction may stay."""


@dataclass(slots=True)
class _Job:
    """Work on the rows, and who waits for its result."""

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
        except BaseException as error:  # it belongs to whoever asked
            self.error = deliverable(error)

    def begin(self) -> None:
        if self.first is not None:
            try:
                self.first()
            except Exception as error:  # it belongs to whoever asked
                self.error = deliverable(error)
            except BaseException as error:  # and this is for whoever runs the loop
                self.error = error

    def settle(self) -> None:
        if self.future.done():
            return  # whoever asked was cancelled meanwhile
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outcome)


_Queue: TypeAlias = "queue.SimpleQueue[_Job | None]"


class StateStore:
    """The prepared state of one driver on this node: `await open()`, and `await close()` at the end.

    Args:
        path: the SQLite file.
        boot_id: the current boot; every row that is written carries it.
        on_aside: is told where an unreadable file was set aside, in whatever thread found that out.
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
        """Opens or makes the file.

        Returns:
            Where an unreadable file was set aside: the state has to be rebuilt then. None otherwise.

        Raises:
            StateError: the file can't be opened or made.
        """
        self._opened = await asyncio.to_thread(self._connect)
        self._rows = Rows(self._opened.connection, self.boot_id)
        self._thread = threading.Thread(target=self._serve, name="prepared-state", daemon=True)
        self._thread.start()
        return self._opened.aside

    async def close(self) -> None:
        """Ends the thread after what was asked before; who asks from now on is refused."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def write(self, work: Callable[[Rows], T], *, first: Callable[[], object] | None = None) -> T:
        """Runs `work` in a transaction; when this returns, its changes are on disk.

        Args:
            work: may run twice (then the first run was rolled back), so it changes nothing but the rows.
            first: done once before the transaction; it may block on the disk. A process that dies right after
                has not begun the transaction.

        Raises:
            StateError: not written, no row has changed: disk full, file damaged.
            Exception: whatever `first` raised (`work` has not run then), or `work` (no row has changed).
        """
        return await self._ask(work, writes=True, first=first)

    async def read(self, work: Callable[[Rows], T]) -> T:
        """Runs `work`, which changes nothing.

        Raises:
            StateError: the file can't be read.
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
            # What arrives while files are written is committed with them.
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
        except BaseException as error:  # a defect; a thread that has ended would answer nobody ever
            _log.exception("prepared state %s", self.path)
            self._readable = False  # it may be the file: the next to ask looks
            for job in jobs:
                job.error = StateError(f"prepared state {self.path}: internal error: {error!r}")

    @contextmanager
    def _file(self) -> Iterator[Rows]:
        """The file that has our name, and keeps it meanwhile.

        Another process may have set it aside, or an admin: what is written into a file of another name is lost.
        A process that dies in here leaves the file to others: the kernel gives the lock back.
        """
        while True:
            with staying(self.path):
                if self._readable and identity(self.path) == self._opened.identity:
                    yield self._rows
                    return
            _log.error("prepared state %s was replaced or damaged, opening it again", self.path)
            opened = self._connect()
            # SQLite looks whether a file was moved before it removes what belongs to its name.
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
        """All in one transaction; if the disk, the file or one of them spoils it, each in its own.

        If another process has kept the file locked for as long as SQLite waits, all fail: it might do so again
        for each of them.
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
        """A process that dies before COMMIT has returned leaves all or nothing of it."""
        connection = self._opened.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows.refresh()
            for job in jobs:
                _run_whole(connection, job, rows)
            connection.execute("COMMIT")
        except BaseException:
            rows.forget()
            # SQLite has rolled back already after some errors, a full disk among them.
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
