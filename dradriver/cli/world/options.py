"""Options that select the source of a world."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.files import file_options, read_sound_files
from dradriver.cli.world.live import list_world
from dradriver.cli.world.loading import loading
from dradriver.cli.world.world import World, read_world

__all__ = ["WorldSource", "world_options"]

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class WorldSource:
    """Files, or a cluster."""

    files: Sequence[str]
    access: Access

    def read(self) -> World:
        """Return the world.

        Raises:
            DraError: files cannot be read, or the API server does not answer.
        """
        if self.files:
            with loading():
                return read_world(read_sound_files(self.files))
        return with_client(self.access, list_world)


def world_options(command: F) -> F:
    """Add the options `-f`, `--kubeconfig` and `--context`. The command gets the argument `source`."""

    @wraps(command)
    def gather(
        *args: object, files: Sequence[str], kubeconfig: str | None, context: str | None, **rest: object
    ) -> object:
        return command(*args, source=WorldSource(files, Access(kubeconfig, context)), **rest)

    return cast(F, file_options(required=False)(cluster_options(gather)))
