"""Objects of a test with the cards driver, created before it and removed after it."""

import json
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dradriver.kube import CLAIMS, NODES, PODS, SLICES, Client, Resource
from tests.e2e.bed.cluster import Cluster
from tests.e2e.node.site import CARDS, DRIVER, EXTENDED_RESOURCE, Json, Site

_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
_RULES: Final[list[Json]] = [
    {"apiGroups": [_RESOURCE], "resources": ["resourceslices"],
     "verbs": ["get", "list", "watch", "create", "update", "delete"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]  # fmt: skip
_CLASSES: Final = Resource(_RESOURCE, "v1", "deviceclasses", "DeviceClass", namespaced=False)
_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_BINDINGS: Final = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_ACCOUNT: Final = "driver"


@asynccontextmanager
async def create_site(cluster: Cluster, folder: Path) -> AsyncIterator[Site]:
    """Create a namespace, a DeviceClass and a driver's account; remove them at the end."""
    async with await Client.connect(str(cluster.kubeconfig())) as client:
        namespace = f"sdk-{uuid.uuid4().hex[:8]}"
        site = Site(client, cluster.node(), folder, folder / "kubeconfig", namespace)
        await _grant(site)
        await write_driver_kubeconfig(client, cluster, namespace, site.node.name, site.kubeconfig)
        for name in ("claims", "health"):
            (site.hardware / name).mkdir(parents=True)
        site.set_cards(CARDS)
        yield site
        await _remove_objects(site)


async def _grant(site: Site) -> None:
    await site.client.create(_NAMESPACES, {"metadata": {"name": site.namespace}}, into=bytes)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector], "extendedResourceName": EXTENDED_RESOURCE}
    await site.client.create(_CLASSES, {"metadata": {"name": DRIVER}, "spec": spec}, into=bytes)
    await create_driver_account(site.client, site.namespace, DRIVER)


async def create_driver_account(client: Client, namespace: str, *drivers: str) -> None:
    """Create the account of drivers in a namespace, with the rights of a driver on a node."""
    own = {
        "apiGroups": [_RESOURCE], "resources": ["resourceclaims/driver"], "resourceNames": drivers,
        "verbs": ["associated-node:patch"],
    }  # fmt: skip
    head = {"metadata": {"name": namespace}}
    await client.create(_ROLES, {**head, "rules": [*_RULES, own]}, into=bytes)
    await client.create(_ACCOUNTS, {"metadata": {"name": _ACCOUNT}}, namespace, into=bytes)
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": namespace}
    subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": namespace}
    await client.create(_BINDINGS, {**head, "roleRef": role, "subjects": [subject]}, into=bytes)


async def delete_driver_account(client: Client, namespace: str) -> None:
    """Delete the rights of the account; the account is deleted with its namespace."""
    await client.delete(_BINDINGS, namespace)
    await client.delete(_ROLES, namespace)


async def write_driver_kubeconfig(
    client: Client, cluster: Cluster, namespace: str, node_name: str, path: Path
) -> None:
    """Write a kubeconfig with a token that is bound to a node, as that of a DaemonSet's pod."""
    node = await client.get(NODES, node_name, into=Json)
    reference = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node["metadata"]["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": _ACCOUNT},
        "spec": {"boundObjectRef": reference, "expirationSeconds": 7200},
    }  # fmt: skip
    made = await client.create(_ACCOUNTS, body, namespace, into=Json, subresource="token", name=_ACCOUNT)
    document = json.loads(cluster.kubeconfig().read_text())
    document["users"][0]["user"] = {"token": made["status"]["token"]}
    path.write_text(json.dumps(document))


async def _remove_objects(site: Site) -> None:
    """Remove the test's objects; a driver must run to unprepare its claims."""
    for pod in (await site.client.list(PODS, site.namespace, into=Json)).items:
        await site.delete_pod(pod["metadata"]["name"])
    if running := [driver for driver in site.drivers if driver.is_running]:
        await site.until("ready driver", running[-1].ready)  # a busy machine can delay its readiness
    else:
        await site.start_driver()

    async def no_pods() -> bool:
        return not (await site.client.list(PODS, site.namespace, into=Json)).items

    await site.until("removal of the pods", no_pods)
    for driver in site.drivers:
        await driver.end()
    shutil.rmtree(site.node.plugins / DRIVER, ignore_errors=True)
    for claim in (await site.client.list(CLAIMS, site.namespace, into=Json)).items:
        await site.client.delete(CLAIMS, claim["metadata"]["name"], site.namespace)
    for item in (await site.client.list(SLICES, fields=f"spec.driver={DRIVER}", into=Json)).items:
        await site.client.delete(SLICES, item["metadata"]["name"])
    await site.client.delete(_CLASSES, DRIVER)
    await delete_driver_account(site.client, site.namespace)
    await site.client.delete(_NAMESPACES, site.namespace)
