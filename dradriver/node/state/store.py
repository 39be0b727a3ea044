"""Store the prepared state: the claims on this node, in one SQLite file that survives crashes and reboots.

One thread owns the connection. If several requests wait for the thread, they are committed together. So eight
concurrent prepares cost the disk little more than one prepare. A second process may have the file open too
(rolling update), so every writing transaction first takes SQLite's write lock.

The thread also writes the files of a claim, right before the transaction that records the claim, because a
change of threads costs as much as writing a file. Each system call in the thread releases Python's interpreter
lock to the event loop, and then waits to get it back. Therefore the thread makes as few system calls as
possible.
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

from dradriver.aio.tasks import Unstoppable, make_deliverable
from dradriver.node.errors import StateError
from dradriver.node.state.database import OpenedFile, connect, is_busy, keep_name, read_identity
from dradriver.node.state.rows import Rows
from dradriver.node.state.tables import is_damage

__all__ = ["StateStore"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class _SpoiledError(Exception):
    """The work of a job failed after it had changed rows, so the transaction must be rolled back."""


@dataclass(slots=True)
class _Job:
    """A request to the thread: work on the rows, and the future for the result."""

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
            self.error = make_deliverable(error)

    def begin(self) -> None:
        if self.first is not None:
            try:
                self.first()
            except Exception as error:  # the error is for the caller
                self.error = make_deliverable(error)
            except BaseException as error:  # such as KeyboardInterrupt, for the code that runs the event loop
                self.error = error

    def settle(self) -> None:
        if self.future.done():
            return  # the caller was canceled in the meantime
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outcome)


_Queue: TypeAlias = "queue.SimpleQueue[_Job | None]"


class StateStore:
    """The prepared state of one driver on this node; call `await open()`, and `await close()` at the end.

    Args:
        path: the SQLite file.
        boot_id: identifies the current boot. It is stored in every row that is written.
        on_aside: called, in any thread, with the new path of an unreadable file that was set aside.
    """

    def __init__(self, path: Path, boot_id: str, on_aside: Callable[[Path], None] = lambda _: None) -> None:
        self.path = path
        self.boot_id = boot_id
        self._on_aside = on_aside
        self._jobs: _Queue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._opened: OpenedFile
        self._rows: Rows
        self._is_readable = True

    async def open(self) -> None:
        """Open or create the file.

        Raises:
            StateError: the file cannot be opened or created.
        """
        self._opened = await asyncio.to_thread(self._connect)
        self._rows = Rows(self._opened.connection, self.boot_id)
        self._thread = threading.Thread(target=self._serve, name="prepared-state", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """End the thread after all earlier requests; later requests are rejected."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def write(self, work: Callable[[Rows], T], *, first: Callable[[], object] | None = None) -> T:
        """Run `work` in a transaction; when this method returns, the changes are on disk.

        Args:
            work: reads and changes rows. It must have no other side effect, because it may run again after a
                rollback.
            first: runs once before the transaction, and may block on the disk. If the process dies right after
                `first`, no row has changed.

        Raises:
            StateError: the file cannot be written (disk full, damaged file). No row has changed.
            Exception: the exception of `first` or `work`. No row has changed. If `first` raised it, `work` has
                not run.
        """
        return await self._submit(work, writes=True, first=first)

    async def read(self, work: Callable[[Rows], T]) -> T:
        """Run `work`, which must not change rows.

        Raises:
            StateError: the file cannot be read.
        """
        return await self._submit(work, writes=False)

    async def _submit(
        self, work: Callable[[Rows], T], *, writes: bool, first: Callable[[], object] | None = None
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = Unstoppable(loop=loop)
        self._enqueue(_Job(work, loop, future, writes, first))
        return await future

    def _enqueue(self, job: _Job) -> None:
        if self._thread is not None:
            self._jobs.put(job)
        else:
            job.error = StateError(f"prepared state {self.path} is closed")
            job.settle()

    def _serve(self) -> None:
        ended = False
        while not ended:
            jobs: list[_Job] = []
            # Requests that arrive while `begin` writes files are committed in one transaction with them.
            while not (ended or (jobs and self._jobs.empty())):
                if job := self._jobs.get():
                    job.begin()
                    jobs.append(job)
                ended = job is None
            if ready := [job for job in jobs if job.error is None]:
                self._process(ready)
            for loop, group in groupby(jobs, key=attrgetter("loop")):
                self._deliver(loop, list(group))
        self._opened.connection.close()

    def _process(self, jobs: list[_Job]) -> None:
        try:
            with self._file() as rows:
                self._run_all(rows, jobs)
        except (OSError, StateError) as error:
            for job in jobs:
                job.error = StateError(f"prepared state {self.path}: {error}")
        except BaseException as error:  # a defect; if the thread ended, it would never answer
            _log.exception("prepared state %s", self.path)
            self._is_readable = False  # the file may be the cause: the next request checks it
            for job in jobs:
                job.error = StateError(f"prepared state {self.path}: internal error: {error!r}")

    @contextmanager
    def _file(self) -> Iterator[Rows]:
        """Yield the rows of the file at `path`, and prevent other processes from setting the file aside.

        Another process or an admin may have renamed the open file. Writes to the renamed file would be lost, so
        the file at `path` is opened again. If the process dies here, the kernel releases the lock.
        """
        while True:
            with keep_name(self.path):
                if self._is_readable and read_identity(self.path) == self._opened.identity:
                    yield self._rows
                    return
            _log.error("prepared state %s: replaced or damaged, opening it again", self.path)
            opened = self._connect()
            # The close does not remove -wal and -shm files of the new file: SQLite detects that its file was
            # renamed.
            self._opened.connection.close()
            self._opened, self._is_readable = opened, True
            self._rows = Rows(opened.connection, self.boot_id)

    def _connect(self) -> OpenedFile:
        opened = connect(self.path)
        if opened.aside is not None:
            self._on_aside(opened.aside)
        return opened

    def _run_all(self, rows: Rows, jobs: Sequence[_Job]) -> None:
        self._run_writes(rows, [job for job in jobs if job.writes])
        for job in jobs:
            if not job.writes:
                self._catch_sqlite_error(job, partial(self._read, rows, job))

    def _run_writes(self, rows: Rows, jobs: list[_Job]) -> None:
        """Run all jobs in one transaction; if it fails, run each job in a transaction of its own.

        If another process has locked the file for SQLite's whole waiting time, all jobs fail immediately:
        otherwise each job could wait as long again.
        """
        if len(jobs) > 1:
            try:
                self._transaction(rows, jobs)
            except sqlite3.Error as error:
                if is_busy(error):
                    for job in jobs:
                        job.error = self._to_state_error(error)
                    return
                _log.debug("a common transaction failed, each job gets its own: %s", error)
            except _SpoiledError:
                _log.debug("a job failed after a change and is rolled back, each job gets its own transaction")
            else:
                return
        for job in jobs:
            with suppress(_SpoiledError):
                self._catch_sqlite_error(job, partial(self._transaction, rows, [job]))

    def _catch_sqlite_error(self, job: _Job, run: Callable[[], None]) -> None:
        try:
            run()
        except sqlite3.Error as error:
            job.error = self._to_state_error(error)

    def _to_state_error(self, error: sqlite3.Error) -> StateError:
        self._is_readable = not is_damage(error)
        return StateError(f"prepared state {self.path}: {error}")

    @staticmethod
    def _read(rows: Rows, job: _Job) -> None:
        rows.refresh()
        job.run(rows)

    def _transaction(self, rows: Rows, jobs: Sequence[_Job]) -> None:
        """Run one transaction; if the process dies before COMMIT returns, all or no changes are stored."""
        connection = self._opened.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows.refresh()
            for job in jobs:
                _run_or_spoil(connection, job, rows)
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
            _log.debug("the loop of the request is closed")


def _run_or_spoil(connection: sqlite3.Connection, job: _Job, rows: Rows) -> None:
    before = connection.total_changes
    job.run(rows)
    if job.error is not None and connection.total_changes != before:
        raise _SpoiledError


def _settle(jobs: Iterable[_Job]) -> None:
    for job in jobs:
        job.settle()
