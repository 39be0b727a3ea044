"""The context of a driver in a process of the SDK: it serves the driver's requests with given functions."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dradriver.driver.claim import Claim
from dradriver.driver.context import DriverContext, MetadataUpdate
from dradriver.driver.health import NodeReport
from dradriver.errors import DraError
from dradriver.kube.resources import CONFIG_MAPS
from dradriver.model.core.config_map import ConfigMap
from dradriver.node.api import Getter

__all__ = ["ContextRequests", "ProcessContext", "read_config_map"]

ReadConfigMap: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes]]]
NodeReports: TypeAlias = Callable[[], Awaitable[Mapping[str, NodeReport]]]
UpdateMetadata: TypeAlias = Callable[[str, MetadataUpdate], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequests:
    """The functions that serve the requests of a driver; if a function is None, its request is not served.

    Attributes:
        rediscover: requests `discover()`; may be called from any thread.
        restart: ends the process; may be called from any thread.
        warn: writes a warning Event of a claim; may be called from any thread.
        read_config_map: reads a ConfigMap; must be called on the SDK's event loop.
        update_metadata: records and writes new metadata; may be called on any event loop.
        node_reports: reads the reports of the nodes; must be called on the SDK's event loop.
    """

    rediscover: Callable[[], None] | None = None
    restart: Callable[[str], None] | None = None
    warn: Callable[[Claim, str], None] | None = None
    read_config_map: ReadConfigMap | None = None
    update_metadata: UpdateMetadata | None = None
    node_reports: NodeReports | None = None


class ProcessContext(DriverContext):
    """A `DriverContext` whose requests are served until `close()`.

    Args:
        requests: the functions that serve the requests.
        node_name: the node that the process runs on.
        data_dir: the driver's own folder.
    """

    def __init__(self, requests: ContextRequests, node_name: str = "", data_dir: Path = Path()) -> None:
        super().__init__(node_name, data_dir)
        self._requests = requests

    def close(self) -> None:
        """Stop serving requests: later requests do nothing or raise an error."""
        self._requests = ContextRequests()

    def rediscover(self) -> None:
        """Request `discover()`; no-op if the event loop is closed."""
        if (serve := self._requests.rediscover) is not None:
            with suppress(RuntimeError):
                serve()

    def restart(self, reason: str) -> None:
        """Request the end of the process; no-op if the event loop is closed."""
        if (serve := self._requests.restart) is not None:
            with suppress(RuntimeError):
                serve(reason)

    def warn(self, claim: Claim, message: str) -> None:
        """Write a warning Event of a claim; no-op if the event loop is closed."""
        if (serve := self._requests.warn) is not None:
            with suppress(RuntimeError):
                serve(claim, message)

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

    async def node_reports(self) -> Mapping[str, NodeReport]:
        """Return the reports of the nodes, by node."""
        if (serve := self._requests.node_reports) is None:
            return await super().node_reports()
        return await serve()


async def read_config_map(client: Getter, namespace: str, name: str) -> Mapping[str, bytes]:
    """Return the content of a ConfigMap, by key.

    Raises:
        DraError: the ConfigMap does not exist, or the driver has no right to read it.
    """
    config_map = await client.get(CONFIG_MAPS, name, namespace, into=ConfigMap)
    try:
        binary = {key: base64.b64decode(text, validate=True) for key, text in config_map.binary_data.items()}
    except binascii.Error as error:
        raise DraError(f"ConfigMap {namespace}/{name}: binaryData: must be base64: {error}") from error
    return {key: text.encode() for key, text in config_map.data.items()} | binary
