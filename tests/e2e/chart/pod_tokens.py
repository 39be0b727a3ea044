"""Tokens of service accounts, also as the kubelet mounts them: bound to a driver's pod and its node."""

import asyncio

from tests.conformance.apiserver.suite import Api, Json

DRA_API = "/apis/resource.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def ensure_node(api: Api, node: str) -> str:
    """Create a Node object if it is missing; return its UID."""
    await api.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    return str((await api.call("GET", f"/api/v1/nodes/{node}")).json["metadata"]["uid"])


async def pod_token(api: Api, namespace: str, account: str, node: str) -> str:
    """Return the token of a pod of a service account on a node; create both if needed."""
    await ensure_node(api, node)
    name = f"{account}-{node}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "driver", "image": "driver"}
    spec = {"nodeName": node, "serviceAccountName": account, "containers": [container]}
    await api.call("POST", pods, {"metadata": {"name": name}, "spec": spec})
    pod = (await api.call("GET", f"{pods}/{name}")).json
    bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    return await _token(api, namespace, account, {"boundObjectRef": bound})


async def plain_token(api: Api, namespace: str, account: str) -> str:
    """Return an unbound token of a service account."""
    return await _token(api, namespace, account, {})


async def until_authorized(api: Api, token: str, attributes: Json) -> None:
    """Wait until the authorizer of a real API server has received a right of an account.

    Args:
        api: the API server.
        token: token of the account.
        attributes: the right (`resourceAttributes`).
    """
    body: Json = {"spec": {"resourceAttributes": attributes}}
    async with asyncio.timeout(60):
        while not (await api.call("POST", REVIEWS, body, token=token)).json["status"]["allowed"]:
            await asyncio.sleep(0.05)


async def _token(api: Api, namespace: str, account: str, spec: Json) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str((await api.make(path, {"spec": spec}))["status"]["token"])
