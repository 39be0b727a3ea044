"""Write the last status of each pool to a small file for `dradriver node status`.

The statuses are not part of the prepared state, because no other part depends on them: they must not cause
transactions or migrations of the state. Only the instance that publishes writes the file.
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
    """The last known status of a pool.

    Attributes:
        status: the status.
        since: the time at which the pool's state last changed, in seconds since the epoch.
    """

    status: PoolStatus
    since: float


def read_pools(data_dir: Path) -> list[KnownPool]:
    """Return the pools that the driver of this data directory published last, by name; empty if there are none.

    Raises:
        StateError: the file cannot be read.
    """
    path = data_dir / FILE_NAME
    try:
        return msgspec.json.decode(atomic.read(path), type=list[KnownPool])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"pool status {path}: cannot be read: {error}") from error


def write_pools(data_dir: Path, pools: Collection[KnownPool]) -> None:
    """Replace the file in one step; if the process dies, the file is correct until another instance publishes.

    Raises:
        OSError: the file was not written. The old file is unchanged.
    """
    ordered = sorted(pools, key=lambda pool: pool.status.pool)
    atomic.write_atomically(data_dir / FILE_NAME, msgspec.json.encode(ordered))
