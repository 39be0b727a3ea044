"""What a process and its files take: read from /proc and from the folder of the cluster."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["FIGURES", "Sample", "children", "sample"]

FIGURES: Final = ("RSS, MiB", "descriptors", "threads", "database, MiB", "WAL, MiB", "log, MiB")
"""The columns, in the order of `Sample.values`."""
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a process.

    Attributes:
        pods: how many pods had come and gone.
        process: which process.
        values: its figures, as `FIGURES` names them.
    """

    pods: int
    process: str
    values: Sequence[float]


def children(parent: int) -> Iterator[tuple[int, str]]:
    """The processes that a process has started and that run now: ID and command line."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for pid in (task / "children").read_text(encoding="ascii").split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except FileNotFoundError:
                continue
            yield int(pid), command.replace(b"\0", b" ").decode(errors="replace").strip()


async def sample(pods: int, process: str, pid: int, database: Path, log: Path) -> Sample:
    """Looks at a process, its SQLite database and its log.

    Args:
        pods: how many pods have come and gone.
        process: the name of the process.
        pid: its ID.
        database: its SQLite file; a file that is not there has no size.
        log: the file of its standard error.
    """
    return await asyncio.to_thread(_sample, pods, process, pid, database, log)


def _sample(pods: int, process: str, pid: int, database: Path, log: Path) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    wal = database.with_name(database.name + "-wal")
    values = (
        int(fields["VmRSS"].split()[0]) / 1024,
        sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        int(fields["Threads"]),
        *(_size(file) / _MEBIBYTE for file in (database, wal, log)),
    )
    return Sample(pods, process, values)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
