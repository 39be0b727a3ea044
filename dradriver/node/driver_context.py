"""The context of a driver in a process of the SDK: it passes each request to the part that serves it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dradriver.driver.context import DriverContext, MetadataUpdate

__all__ = ["ContextRequests", "ProcessContext"]

ReadConfigMap: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes]]]
UpdateMetadata: TypeAlias = Callable[[str, MetadataUpdate], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequests:
    """The functions that serve the requests of a driver; None: the request is not served.

    Attributes:
        rediscover: requests `discover()`, from any thread.
        restart: ends the process, from any thread.
        read_config_map: reads a ConfigMap, on the SDK's loop.
        update_metadata: records and writes new metadata, from any loop.
    """

    rediscover: Callable[[], None] | None = None
    restart: Callable[[str], None] | None = None
    read_config_map: ReadConfigMap | None = None
    update_metadata: UpdateMetadata | None = None


class ProcessContext(DriverContext):
    """A `DriverContext` whose requests are served until `close()`.

    Args:
        requests: the functions that serve them.
        node_name: the node that the process runs on.
        data_dir: the driver's own folder.
    """

    def __init__(self, requests: ContextRequests, node_name: str = "", data_dir: Path = Path()) -> None:
        super().__init__(node_name, data_dir)
        self._requests = requests

    def close(self) -> None:
        """End the service: later requests do nothing or raise an error."""
        self._requests = ContextRequests()

    def rediscover(self) -> None:
        """Request `discover()`; no-op when the loop is closed."""
        if (serve := self._requests.rediscover) is not None:
            with suppress(RuntimeError):
                serve()

    def restart(self, reason: str) -> None:
        """Request the end of the process; no-op when the loop is closed."""
        if (serve := self._requests.restart) is not None:
            with suppress(RuntimeError):
                serve(reason)

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the content of a ConfigMap, by key."""
        if (serve := self._requests.read_config_map) is None:
            return await super().read_config_map(namespace, name)
        return await serve(namespace, name)

    async def update_metadata(self, claim_uid: str, devices: MetadataUpdate) -> None:
        """Replace the metadata of devices of a prepared claim."""
        if (serve := self._requests.update_metadata) is None:
            await super().update_metadata(claim_uid, devices)
        else:
            await serve(claim_uid, devices)
