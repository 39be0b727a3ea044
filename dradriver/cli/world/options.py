"""Options that select the source of a world."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

from dradriver.aio.bulk_load import bulk_load
from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.files import file_options, read_valid_files
from dradriver.cli.world.live import list_world
from dradriver.cli.world.world import World, read_world

__all__ = ["WorldSource", "world_options"]

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class WorldSource:
    """The source of a world: files, or a cluster.

    Attributes:
        files: names of files; empty: read the cluster.
        access: the cluster.
    """

    files: Sequence[str]
    access: Access

    def read(self) -> World:
        """Read the world.

        Returns:
            The objects that allocation needs.

        Raises:
            DraError: files cannot be read, or the API server does not answer.
        """
        if self.files:
            with bulk_load():
                return read_world(read_valid_files(self.files))
        return with_client(self.access, list_world)


def world_options(command: F) -> F:
    """Add the options `-f`, `--kubeconfig` and `--context`.

    Args:
        command: the command. It gets the argument `source`, a `WorldSource`.

    Returns:
        The command with the options.
    """

    @wraps(command)
    def call(*args: object, files: Sequence[str], access: Access, **rest: object) -> object:
        return command(*args, source=WorldSource(files, access), **rest)

    return cast(F, file_options(required=False)(cluster_options(call)))
