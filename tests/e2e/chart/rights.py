"""RBAC rights that requests need, that a role has, and that the API server reports for an account."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dradriver.kube.config.connection import find_connection
from dradriver.kube.http.request import Request, WriteGuard
from dradriver.kube.http.transport import Transport
from tests.conformance.apiserver.suite import Api
from tests.e2e.chart.helm import Helm

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


def needed_right(request: Request, *, watch: bool) -> Right | None:
    """Return the right that a request needs; None for discovery, which needs none."""
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
class RecordingTransport:
    """A transport that records the rights that its requests need, and runs a hook before an update."""

    inner: Transport
    used: set[Right] = field(default_factory=set)
    meddle: Callable[[str], Awaitable[None]] | None = None

    async def request(self, request: Request, guard: WriteGuard | None = None) -> bytes:
        self.note(request, watch=False)
        if request.method == "PUT" and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            await meddle(request.path)
        return await self.inner.request(request, guard)

    def stream(self, request: Request, silence: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.note(request, watch=True)
        return self.inner.stream(request, silence)

    def note(self, request: Request, *, watch: bool) -> None:
        if (needed := needed_right(request, watch=watch)) is not None:
            self.used.add(needed)

    async def close(self) -> None:
        await self.inner.close()


def write_pod_kubeconfig(chart: Helm, token: str, folder: Path) -> Path:
    """Write the kubeconfig of a pod with this token."""
    assert chart.kubeconfig is not None
    document = json.loads(chart.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    (own := folder / "pod.kubeconfig").write_text(json.dumps(document))
    return own


@asynccontextmanager
async def recording(chart: Helm, token: str, folder: Path) -> AsyncIterator[RecordingTransport]:
    """Return a transport that sends requests as a pod with this token does."""
    own = write_pod_kubeconfig(chart, token, folder)
    recorded = RecordingTransport(Transport(await find_connection(str(own), None), "dradriver/rights", 30))
    yield recorded
    await recorded.close()


async def role_rights(api: Api, account: str, *namespaces: str) -> set[Right]:
    """Return the rights of the role that the chart created, and of its roles in these namespaces."""
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


async def reported_rights(api: Api, token: str, namespace: str) -> set[Right]:
    """Return the rights that the API server reports for the token's owner."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = await api.call("POST", path, {"spec": {"namespace": namespace}}, token=token)
    return rights(answer.json["status"]["resourceRules"])
