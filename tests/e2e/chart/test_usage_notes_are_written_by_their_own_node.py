"""With the chart's rights and policy, a node writes its own usage note, and the pool driver reads it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.driver import Attachment, NodeReport
from dradriver.kube import CLAIMS, CONFIG_MAPS, NODES, Client, Forbidden, Invalid, PatchKind
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore
from dradriver.node.usage.note import UsageNote, encode_note, note_name
from dradriver.node.usage.writer import NoteWriter
from dradriver.testing import builders
from tests.conformance.apiserver.suite import Api
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import ensure_node, pod_token
from tests.e2e.chart.rights import write_pod_kubeconfig

NODE, OTHER_NODE = "usage-node-1", "usage-node-2"
DRIVER: Final = builders.DRIVER
BOOT: Final = "boot-1"


@dataclass
class Site:
    """Clients of the node's driver, of the pool driver and of the administrator."""

    node: Client
    pools: Client
    admin: Client


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Any:
    chart = on_bed(real_control_plane, "usage")
    given = {"enabled": True, "driverName": DRIVER, "bindingDriver": True, "nodeReleases": True}
    drivers = {"drivers.memory": given, "drivers.memory-pools": {**given, "kind": "pool"}}
    chart.install("dradriver", *set_values({"image.repository": "registry.example.com/d", **drivers}))
    yield chart
    chart.uninstall("dradriver")


@pytest.fixture
async def site(real: Api, chart: Helm, tmp_path: Path) -> AsyncIterator[Site]:
    await ensure_node(real, OTHER_NODE)

    @asynccontextmanager
    async def client_of(account: str) -> AsyncIterator[Client]:
        folder = tmp_path / account
        folder.mkdir()
        token = await pod_token(real, chart.namespace, account, NODE)
        async with await Client.connect(str(write_pod_kubeconfig(chart, token, folder))) as client:
            client.namespace = chart.namespace
            yield client

    assert chart.kubeconfig is not None
    async with (
        client_of("dradriver-memory") as node,
        client_of("dradriver-memory-pools") as pools,
        await Client.connect(str(chart.kubeconfig)) as admin,
    ):
        admin.namespace = chart.namespace
        yield Site(node, pools, admin)


def note_of(node: str, namespace: str) -> ConfigMap:
    metadata = ObjectMeta(name=note_name(DRIVER, node), namespace=namespace)
    return ConfigMap(metadata=metadata, data=encode_note(UsageNote(node, BOOT)))


async def refuses(client: Client, node: str) -> bool:
    note = note_of(node, client.namespace)
    try:
        await client.create(CONFIG_MAPS, note, client.namespace, into=ConfigMap, dry_run=True)
    except (Forbidden, Invalid) as error:
        return "metadata.name: must be" in str(error)
    return False


async def test_a_node_writes_only_its_own_note_and_deletes_none(site: Site) -> None:
    async with asyncio.timeout(60):  # a policy takes effect a moment after it is written
        while not await refuses(site.node, OTHER_NODE):
            await asyncio.sleep(0.05)
    namespace = site.node.namespace
    await site.node.create(CONFIG_MAPS, note_of(NODE, namespace), namespace, into=ConfigMap)
    with pytest.raises((Forbidden, Invalid)):
        await site.node.delete(CONFIG_MAPS, note_name(DRIVER, NODE), namespace)
    await site.admin.create(CONFIG_MAPS, note_of(OTHER_NODE, namespace), namespace, into=ConfigMap)
    stored = await site.node.get(CONFIG_MAPS, note_name(DRIVER, OTHER_NODE), namespace, into=ConfigMap)
    with pytest.raises((Forbidden, Invalid)):
        await site.node.replace(CONFIG_MAPS, stored, namespace, into=ConfigMap)
    with pytest.raises(Forbidden):
        await site.pools.replace(CONFIG_MAPS, stored, namespace, into=ConfigMap)
    for node in (NODE, OTHER_NODE):
        await site.admin.delete(CONFIG_MAPS, note_name(DRIVER, node), namespace)


async def test_the_pool_driver_sees_the_use_and_its_end(site: Site, tmp_path: Path) -> None:
    created = await site.admin.create(CLAIMS, builders.claim(), "default", into=ResourceClaim)
    wanted = builders.allocated(created, "memory-0", node_name=NODE)
    claim = await site.admin.replace(CLAIMS, wanted, "default", into=ResourceClaim, subresource="status")
    body = {"status": {"nodeInfo": {"bootID": BOOT}}}
    await site.admin.patch(NODES, NODE, "", body, PatchKind.STRATEGIC, into=dict, subresource="status")
    record = to_allocated_claim(claim, DRIVER, NODE).record
    attachment = Attachment(record.uid, NODE, "memory-0", node=NODE, allocated=record.allocated)
    check = ReleaseCheck(site.pools, DRIVER)
    assert "does not exist" in await check.find_use(attachment)
    state = StateStore(tmp_path / "state.db", BOOT)
    await state.open()
    await state.write(Rows.set_complete)
    writer = NoteWriter(site.node, DRIVER, NODE, state=state, is_shared=lambda _: True)
    context = SimpleNamespace(state_complete=asyncio.Event())
    context.state_complete.set()
    writing = asyncio.create_task(writer.run(cast(ClaimContext, context)))
    writer.set_report(NodeReport(values={"systemUUID": "7"}))
    await state.write(lambda rows: rows.move(record, ClaimEvent.BEGIN_PREPARE))
    await writer.note_use(record, claim)
    assert "lists it as in use" in await check.find_use(attachment)
    await state.write(lambda rows: rows.move(record, ClaimEvent.BEGIN_UNPREPARE))
    await state.write(lambda rows: rows.move(record, ClaimEvent.FINISH_UNPREPARE))
    writer.wake()
    async with asyncio.timeout(60):
        while await check.find_use(attachment):
            await asyncio.sleep(0.05)
    assert (await check.read_reports())[NODE].values == {"systemUUID": "7"}
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await state.close()
    await site.admin.delete(CLAIMS, created.metadata.name, "default")
