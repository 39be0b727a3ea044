"""The cards driver's rights on a cluster, and what is made for a test and goes after it."""

import json
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dradriver.kube import CLAIMS, NODES, PODS, SLICES, Client, Resource
from tests.e2e.cluster import Cluster
from tests.e2e.sdk.site import CARDS, DRIVER, EXTENDED_RESOURCE, Json, Site

_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
_RULES: Final = [
    {"apiGroups": [_RESOURCE], "resources": ["resourceslices"],
     "verbs": ["get", "list", "watch", "create", "update", "delete"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims/driver"], "resourceNames": [DRIVER],
     "verbs": ["associated-node:patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]  # fmt: skip
_CLASSES: Final = Resource(_RESOURCE, "v1", "deviceclasses", "DeviceClass", namespaced=False)
_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_BINDINGS: Final = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


@asynccontextmanager
async def site_on(cluster: Cluster, folder: Path) -> AsyncIterator[Site]:
    """A namespace, a DeviceClass and a driver's account; everything goes at the end."""
    async with await Client.connect(str(cluster.kubeconfig())) as client:
        namespace = f"sdk-{uuid.uuid4().hex[:8]}"
        site = Site(client, cluster.node(), folder, folder / "kubeconfig", namespace)
        await _grant(site)
        await _write_kubeconfig(site, cluster)
        for name in ("claims", "health"):
            (site.hardware / name).mkdir(parents=True)
        site.plug(CARDS)
        yield site
        await _clear(site)


async def _grant(site: Site) -> None:
    await site.client.create(_NAMESPACES, {"metadata": {"name": site.namespace}}, into=bytes)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector], "extendedResourceName": EXTENDED_RESOURCE}
    head = {"metadata": {"name": site.namespace}}
    await site.client.create(_CLASSES, {"metadata": {"name": DRIVER}, "spec": spec}, into=bytes)
    await site.client.create(_ROLES, {**head, "rules": _RULES}, into=bytes)
    await site.client.create(_ACCOUNTS, {"metadata": {"name": "cards"}}, site.namespace, into=bytes)
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": site.namespace}
    subject = {"kind": "ServiceAccount", "name": "cards", "namespace": site.namespace}
    await site.client.create(_BINDINGS, {**head, "roleRef": role, "subjects": [subject]}, into=bytes)


async def _write_kubeconfig(site: Site, cluster: Cluster) -> None:
    """A token that is bound to the node, as that of a DaemonSet's pod is."""
    node = await site.client.get(NODES, site.node.name, into=Json)
    reference = {"apiVersion": "v1", "kind": "Node", "name": site.node.name, "uid": node["metadata"]["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "cards"},
        "spec": {"boundObjectRef": reference, "expirationSeconds": 7200},
    }  # fmt: skip
    made = await site.client.create(
        _ACCOUNTS, body, site.namespace, into=Json, subresource="token", name="cards"
    )
    document = json.loads(cluster.kubeconfig().read_text())
    document["users"][0]["user"] = {"token": made["status"]["token"]}
    site.kubeconfig.write_text(json.dumps(document))


async def _clear(site: Site) -> None:
    """Removes what the test made; a driver must be there, or claims can't be unprepared."""
    for pod in (await site.client.list(PODS, site.namespace, into=Json)).items:
        await site.delete_pod(pod["metadata"]["name"])
    if not any([await driver.ready() for driver in site.drivers]):
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
    await site.client.delete(_BINDINGS, site.namespace)
    await site.client.delete(_ROLES, site.namespace)
    await site.client.delete(_NAMESPACES, site.namespace)
