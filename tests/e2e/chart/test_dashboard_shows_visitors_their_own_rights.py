"""The dashboard on a real API server: its role has exactly the rights it uses, and visitors keep theirs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import aiohttp
import pytest

from dradriver.cli.attempt import AttemptSettings
from dradriver.cli.dashboard.explaining import CachedExplanations
from dradriver.kube import CLAIMS, CLASSES, SLICES, Client
from dradriver.kube.http.transport import Transport
from dradriver.monitor import LiveOverview
from dradriver.monitor.dashboard import Dashboard, KubeVisitors
from dradriver.testing import builders
from tests.conformance.apiserver.suite import Api
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import plain_token, until_authorized
from tests.e2e.chart.rights import RecordingTransport, recording, role_rights
from tests.unit.classic.shelf import class_of

NAMESPACE: Final = "dashboard"
ACCOUNT: Final = "dradriver-dashboard"
TEAM: Final = "dashboard-team"
OTHERS: Final = "dashboard-others"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    values = {
        "image.repository": "registry.example.com/d",
        "classic.enabled": True,
        "dashboard.enabled": True,
    }
    helm.install("dradriver", *set_values(values))
    yield helm
    helm.uninstall("dradriver")
    helm.delete_definitions()


@pytest.fixture
async def admin(chart: Helm) -> AsyncIterator[Client]:
    """Return a client of a cluster with a device, a classic class, and a claim in each of two namespaces."""
    assert chart.kubeconfig is not None
    device = builders.slice_(builders.device("dashboard-device"), node_name="dashboard-node")
    async with await Client.connect(str(chart.kubeconfig)) as client:
        await client.create(SLICES, device, into=dict)
        await client.create(CLASSES, class_of(), into=dict)
        yield client
        await client.delete(SLICES, device.metadata.name)
        await client.delete(CLASSES, class_of()["metadata"]["name"])


async def make_claims(api: Api, client: Client) -> None:
    for namespace in (TEAM, OTHERS):
        await api.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        claim = builders.claim(builders.device_request(), name=f"claim-of-{namespace}", namespace=namespace)
        await client.create(CLAIMS, claim, namespace, into=dict)


async def make_visitor(api: Api, name: str, *, sees_devices: bool) -> str:
    """Return the token of an account that may list claims and pods of its own namespace."""
    await api.make(f"/api/v1/namespaces/{TEAM}/serviceaccounts", {"metadata": {"name": name}})
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": TEAM}]
    grants = [
        (f"namespaces/{TEAM}/role", "Role", "resource.k8s.io", "resourceclaims"),
        (f"namespaces/{TEAM}/role", "Role", "", "pods"),
    ]
    if sees_devices:
        grants.append(("clusterrole", "ClusterRole", "resource.k8s.io", "resourceslices"))
    for path, kind, group, resource in grants:
        role = f"{name}-{resource}"
        rule = {"apiGroups": [group], "resources": [resource], "verbs": ["list"]}
        await api.make(f"{RBAC}/{path}s", {"metadata": {"name": role}, "rules": [rule]})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
        binding = {"metadata": {"name": role}, "roleRef": ref, "subjects": subjects}
        await api.make(f"{RBAC}/{path}bindings", binding)
    token = await plain_token(api, TEAM, name)
    for path, _, group, resource in grants:
        namespace = TEAM if path.startswith("namespaces/") else ""
        attributes = {"group": group, "resource": resource, "verb": "list", "namespace": namespace}
        await until_authorized(api, token, attributes)
    return token


@asynccontextmanager
async def served(recorded: RecordingTransport) -> AsyncIterator[str]:
    """Serve the dashboard as its pod does; yield its address."""
    client = Client(cast(Transport, recorded))
    async with LiveOverview(client) as live:
        explain = CachedExplanations(client, live, AttemptSettings.of("ordered", "", 1_000_000))
        server = Dashboard(live, KubeVisitors(client), explain, host="127.0.0.1")
        await server.start()
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            await server.stop()


async def read_page(session: aiohttp.ClientSession, url: str, token: str) -> str:
    """Return the first events, which have everything that the page shows."""
    text = ""
    async with session.get(f"{url}/api/events", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 200, await answer.text()
        while "event: status\n" not in text:
            text += (await answer.content.readuntil(b"\n\n")).decode()
    return text


async def ask(session: aiohttp.ClientSession, url: str, token: str, path: str) -> tuple[int, str]:
    async with session.get(f"{url}/api/{path}", headers={"Authorization": f"Bearer {token}"}) as answer:
        return answer.status, await answer.text()


async def test_visitors_see_what_they_may_list_and_every_right_of_the_role_is_used(
    real: Api, admin: Client, chart: Helm, tmp_path: Path
) -> None:
    await make_claims(real, admin)
    member = await make_visitor(real, "member", sees_devices=True)
    stranger = await make_visitor(real, "stranger", sees_devices=False)
    own = await plain_token(real, NAMESPACE, ACCOUNT)
    async with (
        recording(chart, own, tmp_path) as recorded,
        served(recorded) as url,
        aiohttp.ClientSession() as session,
    ):
        seen = await read_page(session, url, member)
        assert "dashboard-device" in seen or "dashboard-node" in seen
        assert f"{TEAM}/claim-of-{TEAM}" in seen
        assert OTHERS not in seen
        assert (await ask(session, url, stranger, "events"))[0] == 403
        assert (await ask(session, url, "not a token", "events"))[0] == 401
        question = "explain?kind=ResourceClaim&ref={0}/claim-of-{0}"
        status, text = await ask(session, url, member, question.format(TEAM))
        assert status == 200, text
        assert f"claim-of-{TEAM}" in text
        assert (await ask(session, url, member, question.format(OTHERS)))[0] == 404
        expected = await role_rights(real, ACCOUNT)
        async with asyncio.timeout(60):
            while not expected <= recorded.used:  # watches begin after lists
                await asyncio.sleep(0.05)
    assert recorded.used == expected
    for namespace in (TEAM, OTHERS):
        await admin.delete(CLAIMS, f"claim-of-{namespace}", namespace)
