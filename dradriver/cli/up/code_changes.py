"""Finds changed source files of drivers and restarts these drivers, for `dradriver up --reload`.

The files are compared by polling. A driver has few files, so a check takes about a millisecond in a thread, and
no further dependency is needed. If an editor or a version control system writes several files, the driver is
restarted once: a change counts after the files have stayed equal for one interval.

A process that runs is not replaced by code that cannot be imported. Another process imports the changed code
first. If this fails, the error is reported and the old process continues.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["ChangeDetector", "CodeReloader", "Snapshot", "find_code", "find_import_error", "scan_code"]

_POLL_SECONDS: Final = 0.4
_IMPORT_SECONDS: Final = 60.0
"""Time limit for the import of changed code."""

Snapshot: TypeAlias = Mapping[Path, tuple[int, int, int]]
"""For each file: time of the last change in nanoseconds, size, and inode."""

_IMPORT: Final = """
import os, sys
from dradriver.errors import DraError
from dradriver.runner import load_any
code = 0
try:
    load_any(sys.argv[1])
except DraError as error:
    code = 1
    print(error, file=sys.stderr, flush=True)
os._exit(code)
"""
"""Imports a driver, and exits at once, because a thread that the import started could run without end."""


def find_code(module: str) -> tuple[Path, ...]:
    """Return the files and folders with the source code of a driver: its top-level package, or its module.

    Args:
        module: name of the imported module that contains the driver's class.
    """
    top = sys.modules[module.partition(".")[0]]
    folders = tuple(Path(each).resolve() for each in getattr(top, "__path__", ()))
    file = getattr(top, "__file__", None)
    return folders or ((Path(file).resolve(),) if file else ())


def scan_code(code: Iterable[Path]) -> Snapshot:
    """Return the present state of the Python files. Blocks, because it reads folders.

    Args:
        code: files, and folders to search. Hidden folders and `__pycache__` are skipped.
    """
    found = {}
    for each in code:
        for path in _list_files(each):
            with suppress(OSError):  # deleted since the folder was read
                status = path.stat()
                found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _list_files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [each for each in folders if not each.startswith(".") and each != "__pycache__"]
        yield from (Path(folder, file) for file in files if file.endswith(".py") and not file.startswith("."))


class ChangeDetector:
    """Compares snapshots, and reports a change when the files have settled.

    Args:
        known: the state of the files that the running processes have read.
    """

    def __init__(self, known: Snapshot) -> None:
        self._known = known
        self._last = known

    def compare(self, snapshot: Snapshot) -> tuple[Path, ...]:
        """Return the files that changed since the last reported change; empty if they are not settled yet.

        Args:
            snapshot: the state of the files now.
        """
        is_settled, self._last = snapshot == self._last, snapshot
        if not is_settled or snapshot == self._known:
            return ()
        changed = [path for path in {**self._known, **snapshot} if self._known.get(path) != snapshot.get(path)]
        self._known = snapshot
        return tuple(sorted(changed))


async def find_import_error(driver: str) -> str:
    """Import a driver in another process, and return why this fails; empty if it works.

    Args:
        driver: name by which `dradriver run` finds the driver.
    """
    # A program that the import started could keep a pipe open, so the errors are written to a file.
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-B", "-c", _IMPORT, driver),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=errors,
            # Ctrl-C must not reach the process, and programs that the import started are ended with it.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_IMPORT_SECONDS):
                code = await process.wait()
        except TimeoutError:
            return f"its import takes longer than {_IMPORT_SECONDS:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {code}") if code else ""


class CodeReloader:
    """Watches the code of drivers, and restarts a driver when its code changed: `async with CodeReloader(...)`.

    Args:
        code: for each driver its files and folders.
        restart: restarts a driver; gets its name and the reason.
        report: prints one line.
        check: returns why a driver cannot be imported; empty if it can.
    """

    def __init__(
        self,
        code: Mapping[str, Sequence[Path]],
        restart: Callable[[str, str], None],
        report: Callable[[str], None],
        check: Callable[[str], Awaitable[str]] = find_import_error,
    ) -> None:
        self._code = code
        self._restart = restart
        self._report = report
        self._check = check
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "CodeReloader":
        known = {
            driver: ChangeDetector(await asyncio.to_thread(scan_code, code))
            for driver, code in self._code.items()
        }
        self._tasks = [
            asyncio.create_task(self._watch(driver, detector), name=f"code of {driver}")
            for driver, detector in known.items()
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, driver: str, detector: ChangeDetector) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            changed = detector.compare(await asyncio.to_thread(scan_code, self._code[driver]))
            if changed:
                await self._reload(driver, changed)

    async def _reload(self, driver: str, changed: Sequence[Path]) -> None:
        files = _describe_files(changed)
        try:
            error = await self._check(driver)
        except OSError as failure:  # such as a full disk, or too many processes
            error = f"its import cannot be tried: {failure.strerror or failure}"
        if error:
            self._report(f"driver {driver} is not restarted, although {files} changed: {error}")
            return
        self._restart(driver, f"{files} changed")


def _describe_files(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return ", ".join(path.name for path in paths[:2]) + more
