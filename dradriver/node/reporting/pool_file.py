"""The last status of each pool, in a small file for `dradriver node status`.

It is a separate file because nothing depends on it: it must not cause transactions or migrations of the
prepared state. Only the instance that publishes writes it.
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
        since: the time of the last change of state, seconds since the epoch.
    """

    status: PoolStatus
    since: float


def read_pools(data_dir: Path) -> list[KnownPool]:
    """Return the pools that this data directory's driver published last, by name; empty if it never has.

    Raises:
        StateError: the file cannot be read.
    """
    path = data_dir / FILE_NAME
    try:
        return msgspec.json.decode(atomic.read(path), type=list[KnownPool])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"status of the pools {path} can't be read: {error}") from error


def write_pools(data_dir: Path, pools: Collection[KnownPool]) -> None:
    """Replace the file in one step; if the process dies, it stays correct until another instance publishes.

    Raises:
        OSError: not written. The old file is unchanged.
    """
    ordered = sorted(pools, key=lambda pool: pool.status.pool)
    atomic.write_atomically(data_dir / FILE_NAME, msgspec.json.encode(ordered))
