"""`dradriver up logs`: prints the logs of drivers that `dradriver up` runs. It reads only files."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from dradriver.cli.node_folders import default_data_folder
from dradriver.errors import NotFoundError

__all__ = ["LogReader", "find_logs", "follow_logs", "logs"]

_POLL_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of one process. `node` is empty for a process that runs once for the cluster."""

    node: str
    path: Path


@click.command(short_help="Print the log of a driver.")
@click.argument("driver")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder of the cluster.  [default: $XDG_DATA_HOME/dradriver, or ~/.local/share/dradriver]",
)
@click.option("--node", default="", help="Print only the log of this node.  [default: all nodes]")
@click.option(
    "--tail", type=click.IntRange(min=0), help="Print only the last lines of each log.  [default: all]"
)
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@click.pass_context
def logs(ctx: click.Context, driver: str, data: Path | None, node: str, tail: int | None, follow: bool) -> None:
    """Print the log of DRIVER: the name that was given to `dradriver up --driver`.

    The command reads files, so it works while `dradriver up` runs in another terminal, and after its end. If
    several nodes run the driver, each line begins with the name of the node.
    """
    folder = data or (ctx.parent.params.get("data") if ctx.parent else None) or default_data_folder()
    found = find_logs(folder, driver, node)
    readers = [LogReader(each.path, f"{each.node}: " if len(found) > 1 else "") for each in found]
    for reader in readers:
        for line in _last(reader.read(partial=not follow), tail):
            click.echo(line)
    if follow:
        for line in follow_logs(readers, lambda: time.sleep(_POLL_SECONDS)):
            click.echo(line)
            sys.stdout.flush()


def _last(lines: Sequence[str], count: int | None) -> Sequence[str]:
    return lines if count is None else lines[max(0, len(lines) - count) :]


def find_logs(folder: Path, driver: str, node: str = "") -> list[_Log]:
    """Return the logs of a driver: one for each node, or one for the cluster.

    Args:
        folder: data folder of the cluster.
        driver: name of the driver.
        node: the only node; empty for all nodes.

    Raises:
        NotFoundError: there is no cluster in the folder, or the driver has no log there.
    """
    if not (folder / "lock").is_file():
        raise NotFoundError(f"no cluster in {folder}: start `dradriver up`, or give its folder with --data")
    listed = [_Log(path.parent.name, path) for path in sorted(folder.glob("nodes/*/*.log"))]
    listed += [_Log("", path) for path in sorted(folder.glob("*.log"))]
    found = [each for each in listed if each.path.stem == driver and (not node or each.node == node)]
    if found:
        return found
    names = sorted({each.path.stem for each in listed if not node or each.node == node})
    where = f"node {node} of the cluster in {folder}" if node else f"the cluster in {folder}"
    raise NotFoundError(
        f"driver {driver} has no log on {where} (drivers with logs: {', '.join(names) or 'none'})"
    )


class LogReader:
    """Reads a log, and later the lines that were added. If the log was replaced, it is read from its start.

    Args:
        path: the file. It may be missing.
        prefix: text before each line.
    """

    def __init__(self, path: Path, prefix: str = "") -> None:
        self._path = path
        self._prefix = prefix
        self._offset = 0
        self._inode = 0
        self._rest = b""

    def read(self, *, partial: bool = False) -> list[str]:
        """Return the lines since the last call. Blocks.

        Args:
            partial: whether a last line without its end is returned too. Otherwise the next call returns it.
        """
        with suppress(OSError), self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._offset, self._rest, self._inode = 0, b"", status.st_ino
            file.seek(self._offset)
            content = file.read()
            self._offset += len(content)
            *lines, self._rest = (self._rest + content).split(b"\n")
            if partial and self._rest:
                lines.append(self._rest)
            return [self._prefix + line.decode(errors="replace") for line in lines]
        return []


def follow_logs(readers: Sequence[LogReader], wait: Callable[[], None]) -> Iterator[str]:
    """Yield new lines without end.

    Args:
        readers: the logs.
        wait: waits between two reads.
    """
    while True:
        for reader in readers:
            yield from reader.read()
        wait()
