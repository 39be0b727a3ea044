"""Deletes a node's ResourceSlices when the driver is absent."""

import asyncio
import logging

from dradriver.errors import DraError
from dradriver.kube import NODES, SLICES, Client, NotFound
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["wipe_slices"]

_log = logging.getLogger(__name__)


async def wipe_slices(client: Client, node: str, driver: str = "") -> None:
    """Delete the node's ResourceSlices, or only the slices of one driver. Retries until it succeeds.

    A second call deletes the remaining slices. Like the real kubelet, it may delete slices that a driver has
    published in the meantime. The driver then publishes them again.
    """
    fields = f"spec.nodeName={node}" + (f",spec.driver={driver}" if driver else "")
    backoff = Backoff(1.0, 300.0)
    while True:
        try:
            # The Node must exist first. Without it, the node's user has no permission to read slices.
            await client.get(NODES, node, into=bytes)
            for found in (await client.list(SLICES, into=ResourceSlice, fields=fields)).items:
                meta = found.metadata
                if await client.delete(SLICES, meta.name, uid=meta.uid):
                    _log.info("ResourceSlice %s of driver %s is deleted", meta.name, found.spec.driver)
        except NotFound:
            pass
        except DraError as error:
            _log.warning("ResourceSlices of node %s can't be deleted yet: %s", node, error)
        else:
            return
        await asyncio.sleep(backoff.next())
