"""The last status of each pool, in a small file that other processes may read: `dradriver node status`.

A file and not a table of the prepared state: it informs, nothing depends on it, so it must cost the prepared
state neither transactions nor migrations. Only the instance that publishes writes it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.publish.status import PoolStatus

__all__ = ["FILE_NAME", "KnownPool", "read_pools", "write_pools"]

FILE_NAME: Final = "pools.json"


@dataclass(frozen=True, slots=True)
class KnownPool:
    """What was last known of a pool.

    Attributes:
        status: where it stood.
        since: since when it stood there, seconds since the epoch.
    """

    status: PoolStatus
    since: float


def read_pools(data_dir: Path) -> list[KnownPool]:
    """The pools that the driver of this data directory published last, by name; none if it never has.

    Raises:
        StateError: the file can't be read.
    """
    path = data_dir / FILE_NAME
    try:
        return msgspec.json.decode(atomic.read(path), type=list[KnownPool])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"status of the pools {path} can't be read: {error}") from error


def write_pools(data_dir: Path, pools: Collection[KnownPool]) -> None:
    """Replaces the file in one step. Killed right after: the file is true until the next instance publishes.

    Raises:
        OSError: not written; the old file is untouched.
    """
    ordered = sorted(pools, key=lambda pool: pool.status.pool)
    atomic.write_atomically(data_dir / FILE_NAME, msgspec.json.encode(ordered))
