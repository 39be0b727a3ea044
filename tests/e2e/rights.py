"""Which rights requests need, which a role has, and which the API server says that an account has."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dradriver.kube.config.connection import find_connection
from dradriver.kube.http.request import Request
from dradriver.kube.http.transport import Transport
from tests.conformance.apiserver_suite import Api
from tests.e2e.helm import Helm

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


def right(request: Request, *, watch: bool) -> Right | None:
    """The right that a request needs; None for discovery, which everybody has."""
    parts = request.path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"]:
        rest = rest[2:]
    if not rest:
        return None
    resource, name, *sub = [*rest, ""] if len(rest) == 1 else rest
    read = "watch" if watch else "get" if name else "list"
    return group, "/".join([resource, *sub]), VERBS.get(request.method, read)


@dataclass
class Recorded:
    """A transport that notes which rights its requests need, and lets another writer in before an update."""

    inner: Transport
    used: set[Right] = field(default_factory=set)
    meddle: Callable[[str], Awaitable[None]] | None = None

    async def request(self, request: Request) -> bytes:
        self.note(request, watch=False)
        if request.method == "PUT" and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            await meddle(request.path)
        return await self.inner.request(request)

    def stream(self, request: Request, silence: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.note(request, watch=True)
        return self.inner.stream(request, silence)

    def note(self, request: Request, *, watch: bool) -> None:
        if (needed := right(request, watch=watch)) is not None:
            self.used.add(needed)

    async def close(self) -> None:
        await self.inner.close()


def pod_kubeconfig(chart: Helm, token: str, folder: Path) -> Path:
    """The kubeconfig of a pod with this token."""
    assert chart.kubeconfig is not None
    document = json.loads(chart.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    (own := folder / "pod.kubeconfig").write_text(json.dumps(document))
    return own


@asynccontextmanager
async def recording(chart: Helm, token: str, folder: Path) -> AsyncIterator[Recorded]:
    """Requests as a pod with this token makes them."""
    own = pod_kubeconfig(chart, token, folder)
    recorded = Recorded(Transport(await find_connection(str(own), None), "dradriver/rights", 30))
    yield recorded
    await recorded.close()


async def role(api: Api, account: str, *namespaces: str) -> set[Right]:
    """The rights in the role that the chart made, and in those that it made in these namespaces."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    found = set[Right]()
    for folder in ("clusterroles", *(f"namespaces/{namespace}/roles" for namespace in namespaces)):
        found |= rights((await api.call("GET", f"{group}/{folder}/{account}")).json["rules"])
    return found


def rights(rules: list[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def may(api: Api, token: str, namespace: str) -> set[Right]:
    """What the API server says that the token's owner may do."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = await api.call("POST", path, {"spec": {"namespace": namespace}}, token=token)
    return rights(answer.json["status"]["resourceRules"])
