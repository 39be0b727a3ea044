"""Resources of a process and its files, from /proc and the cluster's folder."""

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
    """Figures of a process at one time.

    Attributes:
        pods: number of pods that have come and gone.
        process: name of the process.
        values: its figures in the order of `FIGURES`.
    """

    pods: int
    process: str
    values: Sequence[float]


def children(parent: int) -> Iterator[tuple[int, str]]:
    """Yield PID and command line of the running children of a process."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for pid in (task / "children").read_text(encoding="ascii").split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except FileNotFoundError:
                continue
            yield int(pid), command.replace(b"\0", b" ").decode(errors="replace").strip()


async def sample(pods: int, process: str, pid: int, database: Path, log: Path) -> Sample:
    """Return the figures of a process, its SQLite database and its log.

    Args:
        pods: number of pods that have come and gone.
        process: name of the process.
        pid: its PID.
        database: its SQLite file; a missing file has size 0.
        log: file of its standard error.
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
