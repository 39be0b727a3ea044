"""The definitions of classic DRA agree with the model, and are installed in every embedded cluster."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dradriver.cluster import EmbeddedCluster
from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import (
    CONTROLLER_ALLOCATIONS,
    CRDS,
    SCHEDULING_CONTEXTS,
    Client,
    Conflict,
    Invalid,
    PatchKind,
    Resource,
)
from dradriver.kube.definitions import install_definitions, read_definitions
from dradriver.model.classic import names
from dradriver.model.classic.allocation_records import (
    AllocationRequest,
    ControllerAllocation,
    RecordedAllocation,
)
from dradriver.model.classic.scheduling import (
    ClaimSchedulingStatus,
    PodSchedulingContext,
    SchedulingSpec,
    SchedulingStatus,
)
from dradriver.model.core.meta import ObjectMeta

Json = dict[str, Any]
RESOURCES = {each.plural: each for each in (SCHEDULING_CONTEXTS, CONTROLLER_ALLOCATIONS)}
TYPES: dict[object, str] = {
    str: "string",
    bool: "boolean",
    list[str]: "array",
    list[ClaimSchedulingStatus]: "array",
}


def definition(resource: Resource) -> Json:
    return next(each for each in read_definitions() if each["spec"]["names"]["plural"] == resource.plural)


def schema(resource: Resource, *path: str) -> Json:
    node: Json = definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)
def test_a_definition_has_the_names_of_the_resource(resource: Resource) -> None:
    found = definition(resource)
    spec, version = found["spec"], found["spec"]["versions"][0]
    assert found["metadata"]["name"] == f"{resource.plural}.{resource.group}"
    assert (spec["group"], spec["names"]["kind"], spec["scope"] == "Namespaced", version["name"]) == (
        resource.group,
        resource.kind,
        resource.namespaced,
        resource.version,
    )
    assert version["subresources"] == {"status": {}}, "the scheduler and the controllers write separate parts"


@pytest.mark.parametrize(
    ("resource", "path", "kind"),
    [
        (SCHEDULING_CONTEXTS, (), PodSchedulingContext),
        (SCHEDULING_CONTEXTS, ("spec",), SchedulingSpec),
        (SCHEDULING_CONTEXTS, ("status",), SchedulingStatus),
        (SCHEDULING_CONTEXTS, ("status", "resourceClaims", "[]"), ClaimSchedulingStatus),
        (CONTROLLER_ALLOCATIONS, (), ControllerAllocation),
        (CONTROLLER_ALLOCATIONS, ("spec",), RecordedAllocation),
        (CONTROLLER_ALLOCATIONS, ("status",), AllocationRequest),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_a_schema_has_the_fields_of_the_model(
    resource: Resource, path: tuple[str, ...], kind: type[msgspec.Struct]
) -> None:
    found, fields = schema(resource, *path), msgspec.structs.fields(kind)
    assert list(found["properties"]) == [field.encode_name for field in fields]
    required = {field.encode_name for field in fields if field.required}
    assert required <= set(found.get("required", ())), "a stored object can always be read"
    for field in fields:
        if field.type in TYPES:
            assert found["properties"][field.encode_name]["type"] == TYPES[field.type], field.name


def test_lists_of_nodes_have_the_limit_of_the_api() -> None:
    potential = schema(SCHEDULING_CONTEXTS, "spec", "potentialNodes")
    unsuitable = schema(SCHEDULING_CONTEXTS, "status", "resourceClaims", "[]", "unsuitableNodes")
    assert potential["maxItems"] == unsuitable["maxItems"] == names.MAX_NODES >= names.MAX_POTENTIAL_NODES
    assert (potential["x-kubernetes-list-type"], unsuitable["x-kubernetes-list-type"]) == ("set", "atomic")


def test_several_controllers_own_one_entry_each() -> None:
    entries = schema(SCHEDULING_CONTEXTS, "status", "resourceClaims")
    assert (entries["x-kubernetes-list-type"], entries["x-kubernetes-list-map-keys"]) == ("map", ["name"])


async def test_a_cluster_serves_both_kinds_from_its_start(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0) as cluster:
        for resource in RESOURCES.values():
            assert (await cluster.client().list(resource, into=dict)).items == []


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Yield a client of an API server with the definitions, and without controllers."""
    server = ApiServer(tmp_path / "data")
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        await install_definitions(client)
        yield client
    await server.stop()


def answer(name: str, controller: str, *nodes: str) -> Json:
    entry = {"name": name, "controllerName": controller, "unsuitableNodes": list(nodes)}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "PodSchedulingContext",
        "status": {"resourceClaims": [entry]},
    }


async def test_several_controllers_answer_without_conflicts(client: Client) -> None:
    """KEP-3063: each driver is responsible for providing information about its claims."""
    pod = ("pod-1", "default")
    spec = SchedulingSpec(potential_nodes=["node-1", "node-2"])
    made = PodSchedulingContext(metadata=ObjectMeta(name="pod-1", namespace="default"), spec=spec)
    await client.create(SCHEDULING_CONTEXTS, made, "default", into=PodSchedulingContext)
    answers = {"card": ("a.example.com", "node-1"), "license": ("b.example.com", "node-2")}
    for claim, (controller, node) in answers.items():
        await client.patch(
            *(SCHEDULING_CONTEXTS, *pod, answer(claim, controller, node), PatchKind.APPLY),
            into=PodSchedulingContext,
            subresource="status",
            field_manager=controller,
        )
    stored = await client.get(SCHEDULING_CONTEXTS, *pod, into=PodSchedulingContext)
    found = {
        each.name: (each.controller_name, *each.unsuitable_nodes) for each in stored.status.resource_claims
    }
    assert found == answers
    with pytest.raises(Conflict, match=r"a\.example\.com"):
        await client.patch(
            *(SCHEDULING_CONTEXTS, *pod, answer("card", "b.example.com"), PatchKind.APPLY),
            into=dict,
            subresource="status",
            field_manager="b.example.com",
        )


async def test_the_embedded_api_server_enforces_the_limits_of_the_definitions(client: Client) -> None:
    listed = [f"node-{number}" for number in range(names.MAX_NODES + 1)]

    def context(*nodes: str) -> PodSchedulingContext:
        metadata = ObjectMeta(name="pod-1", namespace="default")
        return PodSchedulingContext(metadata=metadata, spec=SchedulingSpec(potential_nodes=list(nodes)))

    for nodes, rule in (
        (listed, "Too many: 257"),
        (["n", "n"], "Duplicate value"),
        (["n" * 254], "Too long"),
    ):
        with pytest.raises(Invalid, match=rule):
            await client.create(SCHEDULING_CONTEXTS, context(*nodes), "default", into=dict)
    await client.create(SCHEDULING_CONTEXTS, context(*listed[1:]), "default", into=dict)


async def test_a_record_is_immutable_except_for_the_request(client: Client) -> None:
    key = ("uid-1", "default")
    spec = RecordedAllocation(claim_name="claim-1", claim_uid="uid-1", controller_name="a.example.com")
    made = ControllerAllocation(metadata=ObjectMeta(name="uid-1", namespace="default"), spec=spec)
    await client.create(CONTROLLER_ALLOCATIONS, made, "default", into=dict)
    changed = {"spec": {"node": "node-1"}}
    with pytest.raises(Invalid, match="spec is immutable"):
        await client.patch(CONTROLLER_ALLOCATIONS, *key, changed, PatchKind.MERGE, into=dict)
    requested = await client.patch(
        *(CONTROLLER_ALLOCATIONS, *key, {"status": {"deallocationRequested": True}}, PatchKind.MERGE),
        into=ControllerAllocation,
        subresource="status",
    )
    assert requested.status.deallocation_requested
    assert requested.spec == spec


async def test_an_installation_replaces_the_definition_of_another_version(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0) as cluster:
        client, name = cluster.client(), f"{SCHEDULING_CONTEXTS.plural}.{names.GROUP}"
        stored = await client.get(CRDS, name, into=dict)
        changed: Json = msgspec.json.decode(msgspec.json.encode(stored))
        properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"]["properties"]["potentialNodes"]["maxItems"] = 1
        await client.replace(CRDS, changed, into=dict)
        await install_definitions(client)
        assert (await client.get(CRDS, name, into=dict))["spec"] == stored["spec"]
