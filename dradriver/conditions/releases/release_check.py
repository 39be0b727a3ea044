"""Read nodes and their usage notes from the API server, without caches.

The caller must know that the allocation is gone before it calls `find_use`: the node writes its note before it
reads the claim, so a node that has found the allocation is in the note.
"""

import logging
from collections.abc import Callable, Mapping

from dradriver.driver import AttachError, Attachment, NodeReport
from dradriver.errors import InvalidObjectError, Problem
from dradriver.kube import CONFIG_MAPS, NODES, Client, NotFound
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from dradriver.node.usage.note import UsageEntry, UsageNote, decode_note, note_label, note_name

__all__ = ["ReleaseCheck"]

_log = logging.getLogger(__name__)


class ReleaseCheck:
    """Finds out whether nodes use the devices of a driver, and whether they can attach one.

    Args:
        client: the API server. It needs `get` and `list` on ConfigMaps in its namespace, and `get` on nodes.
        driver: the driver's name.
    """

    def __init__(self, client: Client, driver: str) -> None:
        self._client = client
        self._driver = driver

    async def find_use(self, attachment: Attachment) -> str:
        """Return why the attachment counts as in use on its node; empty if it can be detached.

        Without a node in the attachment, the notes of all nodes are read.

        Raises:
            DraError: the API server did not answer.
        """
        wanted = UsageEntry(
            claim_uid=attachment.claim_uid,
            pool=attachment.pool,
            device=attachment.device,
            share_id=attachment.share_id,
            allocated=attachment.allocated,
        )
        return await self._find_use(attachment.node, lambda note: note.names(wanted))

    async def find_claim_use(self, uid: str, node: str) -> str:
        """Return why a claim counts as in use on its node; empty if all of its devices can be detached.

        Args:
            uid: UID of the claim.
            node: name of the node; empty: the notes of all nodes are read.

        Raises:
            DraError: the API server did not answer.
        """
        return await self._find_use(node, lambda note: any(each.claim_uid == uid for each in note.entries))

    async def check_node(self, claim: ResourceClaim, attachment: Attachment) -> None:
        """Check that the attachment has exactly one node, and that this node can attach it.

        Raises:
            AttachError: it has not, or the node cannot. The device is not bad.
            DraError: the API server did not answer.
        """
        if not attachment.node:
            device = DeviceId(self._driver, attachment.pool, attachment.device, attachment.share_id)
            raise AttachError(
                f"claim {claim.ref}: device {device}: the allocation must name exactly one node, because the "
                "driver detaches a device only after its node has released it (node_releases)",
                reason="NotOneNode",
                device_is_bad=False,
            )
        try:
            problem = (await self._read(attachment.node)).report.problem
        except (NotFound, InvalidObjectError) as error:
            problem = self._explain(attachment.node, error)
        if problem:
            raise AttachError(
                f"node {attachment.node} can attach no device: {problem}",
                reason="NodeNotReady",
                device_is_bad=False,
            )

    async def read_reports(self) -> Mapping[str, NodeReport]:
        """Return the reports of the nodes, by node; an unreadable note is logged and omitted.

        Raises:
            DraError: the API server did not answer.
        """
        reports = {}
        for config_map in await self._list():
            try:
                note = decode_note(config_map)
            except InvalidObjectError as error:
                _log.warning("%s; the report of its node is ignored", error)
                continue
            if config_map.metadata.name == note_name(self._driver, note.node):
                reports[note.node] = note.report
        return reports

    async def _find_use(self, name: str, names_it: Callable[[UsageNote], bool]) -> str:
        if not name:
            return await self._find_use_anywhere(names_it)
        try:
            node = await self._client.get(NODES, name, into=Node)
        except NotFound:
            return ""
        if node.is_out_of_service:
            return ""
        try:
            note = await self._read(name)
        except (NotFound, InvalidObjectError) as error:
            return f"node {name}: {self._explain(name, error)}"
        if note.boot_id != node.boot_id:
            return f"node {name}: {self._subject(name)} was written before the last boot"
        if names_it(note):
            return f"node {name}: {self._subject(name)} lists it as in use"
        return ""

    async def _find_use_anywhere(self, names_it: Callable[[UsageNote], bool]) -> str:
        for config_map in await self._list():
            try:
                note = decode_note(config_map)
            except InvalidObjectError as error:
                return str(error)
            if names_it(note) and (problem := await self._find_use(note.node, names_it)):
                return problem  # otherwise the node is gone, or has released it meanwhile
        return ""

    async def _list(self) -> list[ConfigMap]:
        label = "=".join(note_label(self._driver))
        listing = await self._client.list(CONFIG_MAPS, self._client.namespace, into=ConfigMap, labels=label)
        if listing.unreadable:
            raise next(iter(listing.unreadable.values()))
        return listing.items

    async def _read(self, node: str) -> UsageNote:
        name, namespace = note_name(self._driver, node), self._client.namespace
        note = decode_note(await self._client.get(CONFIG_MAPS, name, namespace, into=ConfigMap))
        if note.node != node:
            raise InvalidObjectError(self._subject(node), [Problem("data.node", f"must be {node}")])
        return note

    def _subject(self, node: str) -> str:
        return f"ConfigMap {self._client.namespace}/{note_name(self._driver, node)}"

    def _explain(self, node: str, error: NotFound | InvalidObjectError) -> str:
        if isinstance(error, NotFound):
            return f"{self._subject(node)} does not exist: the driver has not run there yet"
        return str(error)
