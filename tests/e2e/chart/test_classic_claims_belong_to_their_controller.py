"""With the chart's policies and roles, only a controller and the scheduler write what KEP-3063 gave to them."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import API_VERSION, DEALLOCATION_REQUESTED, GROUP, finalizer
from dradriver.model.encoding.codec import canonical
from tests.conformance.apiserver.suite import APPLY, DRA, JSON_PATCH, MERGE, Answer, Api, Json
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import plain_token, until_authorized

NAMESPACE: Final = "classic"
CONTROLLER, OTHER, PLUGIN = "fabric.example.com", "license.example.com", "card.example.com"
CLASSIC: Final = f"/apis/{GROUP}/v1alpha1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
WAIT_SECONDS: Final = 30
_SETTINGS: Final = {"enabled": True, "kind": "controller", "kubeletPlugins": [PLUGIN]}
VALUES: Final = {
    "image.repository": "registry.example.com/d",
    "classic.enabled": True,
    "drivers.fabric": {**_SETTINGS, "driverName": CONTROLLER},
    "drivers.license": {**_SETTINGS, "driverName": OTHER},
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
}


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    helm.install("dradriver", *set_values(VALUES))
    yield helm
    helm.uninstall("dradriver")
    helm.delete_definitions()


@dataclass
class Site:
    """The API server, a namespace, and the tokens of those who write there."""

    api: Api
    namespace: str
    controller: str
    other: str
    scheduler: str
    tenant: str

    @property
    def claims(self) -> str:
        return f"{DRA}/namespaces/{self.namespace}/resourceclaims"

    @property
    def contexts(self) -> str:
        return f"{CLASSIC}/namespaces/{self.namespace}/podschedulingcontexts"

    @property
    def records(self) -> str:
        return f"{CLASSIC}/namespaces/{self.namespace}/controllerallocations"

    async def claim(self, *finalizers: str, token: str = "") -> Answer:
        request = {"name": "r", "exactly": {"deviceClassName": "c"}}
        body = {
            "metadata": {"name": f"claim-{uuid.uuid4().hex[:8]}", "finalizers": list(finalizers)},
            "spec": {"devices": {"requests": [request]}},
        }
        return await self.api.call("POST", self.claims, body, token=token or self.api.token)

    async def allocated(self, *, shareable: bool = False, consumers: int = 1) -> str:
        """Return the name of a claim that the controller has allocated and reserved for some pods."""
        claim = (await self.claim()).json
        path = f"{self.claims}/{claim['metadata']['name']}"
        body: Json = {"metadata": {"finalizers": [finalizer(CONTROLLER)]}}
        await self.ok("PATCH", path, body, self.controller)
        body = {
            "status": {"allocation": allocation(claim, shareable=shareable), "reservedFor": pods(consumers)}
        }
        await self.ok("PATCH", f"{path}/status", body, self.controller)
        return str(claim["metadata"]["name"])

    async def ok(self, method: str, path: str, body: Json | list[Json] | None, token: str) -> Json:
        kind = JSON_PATCH if isinstance(body, list) else MERGE if method == "PATCH" else "application/json"
        answer = await self.api.call(method, path, body, token=token, content_type=kind)
        assert answer.status in {200, 201}, answer.raw
        return answer.json

    async def refused(self, method: str, path: str, body: Json | list[Json] | None, token: str) -> str:
        """Return the message with which a policy rejects a request.

        A policy takes effect a moment after it is written. Until then, requests are not carried out here.
        """
        kind = JSON_PATCH if isinstance(body, list) else MERGE if method == "PATCH" else "application/json"
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                answer = await self.api.call(
                    method, path, body, token=token, content_type=kind, params={"dryRun": "All"}
                )
                if answer.status in {403, 422} and "ValidatingAdmissionPolicy" in answer.json["message"]:
                    return str(answer.json["message"])
                assert answer.status in {200, 201}, answer.raw
                await asyncio.sleep(0.1)


def allocation(claim: Json, *, shareable: bool = False) -> Json:
    """Return what the controller allocates for a claim."""
    configs = split_handle(PLUGIN, claim["metadata"]["uid"], b"data", shareable=shareable)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    return {
        "allocationTimestamp": "2026-01-01T00:00:00Z",
        "devices": {
            "results": [{"request": "r", "driver": PLUGIN, "pool": CONTROLLER, "device": "d"}],
            "config": [to_json(each) for each in configs],
        },
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }


def to_json(config: object) -> Json:
    """Return an entry of a configuration as JSON values."""
    return dict(json.loads(canonical(config)))


def pods(count: int) -> list[Json]:
    return [{"resource": "pods", "name": f"p{index}", "uid": f"u{index}"} for index in range(count)]


@pytest.fixture
async def site(real: Api, chart: Helm) -> Site:
    namespace = f"classic-{uuid.uuid4().hex[:8]}"
    await real.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await real.make(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "tenant"}})
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await real.make(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
    binding = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
    }
    await real.make(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    accounts = [f"dradriver-{name}" for name in ("fabric", "license", "scheduler")]
    controller, other, scheduler = [await plain_token(real, NAMESPACE, account) for account in accounts]
    tenant = await plain_token(real, namespace, "tenant")
    for token in (controller, other, scheduler, tenant):
        # All rights of these accounts include patching claims.
        attributes = {"group": "resource.k8s.io", "resource": "resourceclaims", "verb": "patch"}
        await until_authorized(real, token, {**attributes, "namespace": namespace})
    return Site(real, namespace, controller, other, scheduler, tenant)


def context(name: str, *nodes: str, owner: str = "") -> Json:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner or name, "uid": "u"}
    return {
        "apiVersion": API_VERSION,
        "kind": "PodSchedulingContext",
        "metadata": {"name": name, "ownerReferences": [reference]},
        "spec": {"potentialNodes": list(nodes)},
    }


def record(controller: str, uid: str = "") -> Json:
    uid = uid or uuid.uuid4().hex
    spec = {"claimName": "claim", "claimUID": uid, "controllerName": controller}
    return {
        "apiVersion": API_VERSION,
        "kind": "ControllerAllocation",
        "metadata": {"name": uid},
        "spec": spec,
    }


def answers(*entries: tuple[str, str]) -> Json:
    listed = [{"name": name, "controllerName": who, "unsuitableNodes": []} for name, who in entries]
    return {"status": {"resourceClaims": listed}}


async def test_no_consumer_is_added_while_deallocation_is_requested(site: Site) -> None:
    path = f"{site.claims}/{await site.allocated(shareable=True)}/status"
    device = {"driver": PLUGIN, "pool": CONTROLLER, "device": "d"}
    condition = {
        "type": DEALLOCATION_REQUESTED,
        "status": "True",
        "reason": "Unavailable",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await site.ok("PATCH", path, {"status": {"reservedFor": pods(2)}}, site.scheduler)
    body: Json = {"status": {"devices": [{**device, "conditions": [condition]}], "reservedFor": pods(1)}}
    await site.ok("PATCH", path, body, site.scheduler)
    message = await site.refused("PATCH", path, {"status": {"reservedFor": pods(2)}}, site.scheduler)
    assert "no consumer can be added while the condition DeallocationRequested is True" in message
    await site.ok("PATCH", path, {"status": {"reservedFor": None}}, site.scheduler)


async def test_the_controller_clears_allocation_and_request_in_one_write(site: Site) -> None:
    path = f"{site.claims}/{await site.allocated()}"
    device = {"driver": PLUGIN, "pool": CONTROLLER, "device": "d"}
    condition = {
        "type": DEALLOCATION_REQUESTED,
        "status": "True",
        "reason": "Unavailable",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body: Json = {"status": {"devices": [{**device, "conditions": [condition]}], "reservedFor": None}}
    await site.ok("PATCH", f"{path}/status", body, site.scheduler)
    operations = [{"op": "remove", "path": "/status/allocation"}]
    stored = await site.ok("PATCH", f"{path}/status", operations, site.controller)
    assert "devices" not in stored.get("status", {})
    await site.ok("PATCH", path, [{"op": "remove", "path": "/metadata/finalizers/0"}], site.controller)


async def test_a_claim_that_is_not_shareable_has_one_consumer(site: Site) -> None:
    path = f"{site.claims}/{await site.allocated()}/status"
    message = await site.refused("PATCH", path, {"status": {"reservedFor": pods(2)}}, site.scheduler)
    assert "status.reservedFor: must have at most one consumer" in message
    await site.ok("PATCH", path, {"status": {"reservedFor": None}}, site.scheduler)
    await site.ok("PATCH", path, {"status": {"reservedFor": pods(1)}}, site.scheduler)
    shareable = f"{site.claims}/{await site.allocated(shareable=True)}/status"
    await site.ok("PATCH", shareable, {"status": {"reservedFor": pods(3)}}, site.scheduler)


async def test_only_a_controller_adds_or_removes_its_finalizer(site: Site) -> None:
    claim = (await site.claim(token=site.tenant)).json
    path = f"{site.claims}/{claim['metadata']['name']}"
    add: Json = {"metadata": {"finalizers": [finalizer(CONTROLLER)]}}
    for token in (site.tenant, site.other, site.scheduler):
        message = await site.refused("PATCH", path, add, token)
        assert f"only the controller {CONTROLLER} can add or remove" in message
    await site.ok("PATCH", path, add, site.controller)
    message = await site.refused("PATCH", path, {"metadata": {"finalizers": None}}, site.tenant)
    assert f"only the controller {CONTROLLER} can add or remove" in message
    await site.ok("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, site.tenant)
    await site.ok("PATCH", path, {"metadata": {"finalizers": None}}, site.controller)


async def test_a_controller_allocates_only_claims_that_have_its_finalizer(site: Site) -> None:
    claim = (await site.claim()).json
    path = f"{site.claims}/{claim['metadata']['name']}"
    body: Json = {"status": {"allocation": allocation(claim), "reservedFor": pods(1)}}
    wanted = (
        f"the controller {CONTROLLER} can write it only in claims with the finalizer {finalizer(CONTROLLER)}"
    )
    assert wanted in await site.refused("PATCH", f"{path}/status", body, site.controller)
    add: Json = {"metadata": {"finalizers": [finalizer(OTHER)]}}
    await site.ok("PATCH", path, add, site.other)
    assert wanted in await site.refused("PATCH", f"{path}/status", body, site.controller)
    await site.ok("PATCH", f"{path}/status", body, site.other)
    for change in ({"reservedFor": None}, {"allocation": None, "reservedFor": None}):
        changed = {"status": change}
        assert wanted in await site.refused("PATCH", f"{path}/status", changed, site.controller)
    await site.ok("PATCH", f"{path}/status", {"status": {"reservedFor": None}}, site.scheduler)
    await site.ok("PATCH", f"{path}/status", {"status": {"allocation": None}}, site.other)


async def test_a_scheduler_allocates_claims_without_the_finalizer_of_a_controller(site: Site) -> None:
    claim = (await site.claim()).json
    path = f"{site.claims}/{claim['metadata']['name']}"
    await site.ok("PATCH", f"{path}/status", {"status": {"allocation": allocation(claim)}}, site.scheduler)


CLASS: Final[Json] = {"apiVersion": API_VERSION, "kind": "ControllerClass", "controllerName": CONTROLLER}
NEVER: Final = [{"cel": {"expression": "false"}}]
WRONG_CLASSES: Final[dict[str, tuple[Json, str]]] = {
    "no selector": ({"selectors": []}, "spec.selectors: must be exactly one CEL expression `false`"),
    "another selector": ({"selectors": [{"cel": {"expression": "true"}}]}, "spec.selectors"),
    "two selectors": ({"selectors": NEVER * 2}, "spec.selectors"),
    "extended resource": ({"extendedResourceName": "a.com/b"}, "spec.extendedResourceName: must not be set"),
    "two entries": (
        {"config": [{"opaque": {"driver": GROUP, "parameters": CLASS}}] * 2},
        "spec.config: must have exactly one entry",
    ),
    "another kind": (
        {"config": [{"opaque": {"driver": GROUP, "parameters": {**CLASS, "kind": "ControllerClaim"}}}]},
        "must be a ControllerClass",
    ),
    "no name": (
        {"config": [{"opaque": {"driver": GROUP, "parameters": {**CLASS, "controllerName": ""}}}]},
        "with a controllerName",
    ),
}


@pytest.mark.parametrize("case", WRONG_CLASSES)
async def test_a_class_of_a_controller_cannot_be_allocated_from_slices(site: Site, case: str) -> None:
    changed, expected = WRONG_CLASSES[case]
    config = [{"opaque": {"driver": GROUP, "parameters": CLASS}}]
    spec: dict[str, Any] = {"selectors": NEVER, "config": config}
    body = {"metadata": {"name": f"c-{uuid.uuid4().hex[:8]}"}, "spec": {**spec, **changed}}
    assert expected in await site.refused("POST", f"{DRA}/deviceclasses", body, site.api.token)
    await site.ok("POST", f"{DRA}/deviceclasses", {**body, "spec": spec}, site.api.token)
    await site.api.call("DELETE", f"{DRA}/deviceclasses/{body['metadata']['name']}")


async def test_only_the_scheduler_writes_where_a_pod_may_run(site: Site) -> None:
    message = await site.refused("POST", site.contexts, context("pod"), site.tenant)
    assert "spec: only a scheduler can write it" in message
    message = await site.refused("POST", site.contexts, context("pod", owner="another"), site.scheduler)
    assert "metadata.ownerReferences: must have the pod" in message
    await site.ok("POST", site.contexts, context("pod", "n1"), site.scheduler)
    changed: Json = {"spec": {"selectedNode": "n1"}}
    assert "only a scheduler" in await site.refused("PATCH", f"{site.contexts}/pod", changed, site.tenant)
    await site.ok("PATCH", f"{site.contexts}/pod", changed, site.scheduler)
    for token in (site.controller, site.other):
        answer = await site.api.call("PATCH", f"{site.contexts}/pod", changed, token=token, content_type=MERGE)
        assert answer.status == 403, "controllers may write only the status"
    answer = await site.api.call("DELETE", f"{site.contexts}/pod", token=site.scheduler)
    assert answer.status == 200


async def test_a_controller_writes_only_its_own_answers(site: Site) -> None:
    await site.ok("POST", site.contexts, context("pod", "n1"), site.scheduler)
    path = f"{site.contexts}/pod/status"

    async def apply(token: str, who: str, *entries: tuple[str, str]) -> Answer:
        head = {"apiVersion": API_VERSION, "kind": "PodSchedulingContext", "metadata": {"name": "pod"}}
        body = {**head, **answers(*entries)}
        params = {"fieldManager": who, "force": "true"}  # as the SDK writes answers
        return await site.api.call("PATCH", path, body, token=token, content_type=APPLY, params=params)

    foreign = await site.refused("PATCH", path, answers(("card", CONTROLLER)), site.other)
    assert f"only the controller {CONTROLLER} can write its entries" in foreign
    assert "only the controller" in await site.refused(
        "PATCH", path, answers(("card", CONTROLLER)), site.tenant
    )
    assert (await apply(site.controller, CONTROLLER, ("card", CONTROLLER))).status == 200
    both = await apply(site.other, OTHER, ("license", OTHER), ("second", OTHER))
    assert [each["name"] for each in both.json["status"]["resourceClaims"]] == ["card", "license", "second"]
    message = await site.refused("PATCH", path, answers(("license", OTHER), ("second", OTHER)), site.other)
    assert f"only the controller {CONTROLLER} can write its entries" in message, "removing is writing, too"
    message = await site.refused("PATCH", path, answers(), site.controller)
    assert "one write can change the entries of one controller only" in message
    # The class of the card has another controller now, and the earlier one does not run any more.
    taken = await apply(site.other, OTHER, ("card", OTHER), ("license", OTHER))
    assert taken.status == 200, taken.raw
    stored = [(each["name"], each["controllerName"]) for each in taken.json["status"]["resourceClaims"]]
    assert sorted(stored) == [("card", OTHER), ("license", OTHER)]
    assert (await apply(site.controller, CONTROLLER)).status == 200, "it has no entry any more"


async def test_only_a_controller_writes_its_records_and_only_the_scheduler_its_requests(site: Site) -> None:
    body = record(CONTROLLER)
    path = f"{site.records}/{body['metadata']['name']}"
    for token in (site.tenant, site.other):
        message = await site.refused("POST", site.records, body, token)
        assert f"only the controller {CONTROLLER} can write its records" in message
    await site.ok("POST", site.records, body, site.controller)
    for token in (site.tenant, site.other):
        assert "can write its records" in await site.refused("DELETE", path, None, token)
    request: Json = {"status": {"deallocationRequested": True}}
    assert "only a scheduler" in await site.refused("PATCH", f"{path}/status", request, site.tenant)
    await site.ok("PATCH", f"{path}/status", request, site.scheduler)
    answer = await site.api.call("DELETE", path, token=site.controller)
    assert answer.status == 200


async def test_a_record_never_changes_and_has_the_name_of_its_claim(site: Site) -> None:
    wrong = {**record(CONTROLLER), "metadata": {"name": "another"}}
    answer = await site.api.call("POST", site.records, wrong, token=site.controller)
    assert (answer.status, "metadata.name must be spec.claimUID" in answer.json["message"]) == (422, True)
    body = record(CONTROLLER)
    await site.ok("POST", site.records, body, site.controller)
    path = f"{site.records}/{body['metadata']['name']}"
    changed = {"spec": {"node": "n2"}}
    answer = await site.api.call("PATCH", path, changed, content_type=MERGE)
    assert (answer.status, "spec is immutable" in answer.json["message"]) == (422, True)
    await site.ok("DELETE", path, None, site.controller)


async def test_a_controller_reads_no_secrets_and_writes_no_pods(site: Site) -> None:
    for resource in ("secrets", "configmaps", "nodes"):
        root = "/api/v1" if resource == "nodes" else f"/api/v1/namespaces/{site.namespace}"
        assert (await site.api.call("GET", f"{root}/{resource}", token=site.controller)).status == 403
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    answer = await site.api.call(
        "POST", f"/api/v1/namespaces/{site.namespace}/pods", pod, token=site.controller
    )
    assert answer.status == 403


async def test_records_survive_an_upgrade_and_an_uninstallation(site: Site, chart: Helm) -> None:
    """Without its records, a controller would not know what it has allocated."""
    body = record(CONTROLLER)
    await site.ok("POST", site.records, body, site.controller)
    chart.upgrade("dradriver", *set_values(VALUES))
    chart.uninstall("dradriver")
    chart.install("dradriver", *set_values(VALUES))
    stored = (await site.api.call("GET", f"{site.records}/{body['metadata']['name']}")).json
    assert stored["spec"] == body["spec"]
