"""Feature gates: their settings, and the fields that they drop."""

import uuid
from typing import Any

import pytest

from dradriver.cluster.apiserver import FeatureGates
from dradriver.errors import UsageError
from dradriver.model.encoding.codec import encode
from tests.conformance.apiserver.suite import DRA, MERGE, Api, allocation, claim, resource_slice
from tests.unit.cluster.apiserver.conftest import Connect, StartServer

SLICES = f"{DRA}/resourceslices"
PARTITION = {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]}
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"


def test_gates_are_parsed_from_text() -> None:
    gates = FeatureGates.parse("DRAPartitionableDevices=false, DRAListTypeAttributes=true")
    assert not gates.enabled("DRAPartitionableDevices")
    assert gates.enabled("DRAListTypeAttributes")
    assert gates.enabled("DRADeviceTaints")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("DRANonsense=true", "'DRANonsense' is unknown"),
        ("DRADeviceTaints", "write NAME=true"),
        ("DRADeviceTaints=maybe", "write NAME=true"),
        ("DRAPartitionableDevices=false,DRADeviceCompatibilityGroups=true", "needs DRAPartitionableDevices"),
        ("DynamicResourceAllocation=false", "DynamicResourceAllocation is always on: Kubernetes 1.37 locks it"),
    ],
)
def test_an_invalid_gate_is_a_usage_error(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        FeatureGates.parse(text)


async def create_slice(api: Api, **spec: Any) -> Any:
    return (await api.make(SLICES, resource_slice(f"s-{uuid.uuid4().hex[:8]}", **spec)))["spec"]


async def test_fields_of_a_gate_that_is_off_are_dropped(start_server: StartServer, connect: Connect) -> None:
    api = connect(
        await start_server(
            feature_gates={"DRAPartitionableDevices": False, "DRADeviceBindingConditions": False}
        )
    )
    device = {**PARTITION, "bindingConditions": ["a"], "bindingFailureConditions": ["b"], "bindsToNode": True}
    assert (await create_slice(api, devices=[device]))["devices"] == [{"name": "d"}]


async def test_compatibility_groups_are_off_by_default(start_server: StartServer, connect: Connect) -> None:
    uses = [{**PARTITION["consumesCounters"][0], "compatibilityGroups": ["mig"]}]  # type: ignore[dict-item]
    devices = [{"name": "d", "consumesCounters": uses}]
    api = connect(await start_server())
    assert (
        "compatibilityGroups"
        not in (await create_slice(api, devices=devices))["devices"][0]["consumesCounters"][0]
    )


async def test_compatibility_groups_are_kept_and_bounded_when_on(
    start_server: StartServer, connect: Connect
) -> None:
    api = connect(await start_server(feature_gates={"DRADeviceCompatibilityGroups": True}))
    uses: dict[str, Any] = {
        "counterSet": "s",
        "counters": {"m": {"value": "1"}},
        "compatibilityGroups": ["mig", "vgpu"],
    }
    kept = await create_slice(api, devices=[{"name": "d", "consumesCounters": [uses]}])
    assert kept["devices"][0]["consumesCounters"][0]["compatibilityGroups"] == ["mig", "vgpu"]
    uses["compatibilityGroups"] = ["a", "b", "c"]
    refused = await api.call(
        "POST", SLICES, resource_slice("x", devices=[{"name": "d", "consumesCounters": [uses]}])
    )
    assert "compatibilityGroups: Too many: 3: must have at most 2 items" in refused.json["message"]


async def test_a_slice_that_uses_a_field_keeps_it_when_the_gate_goes_off(
    start_server: StartServer, connect: Connect
) -> None:
    """While the gate is off, an update of an object that already uses the field may still set it."""
    server = await start_server()
    await connect(server).make(SLICES, resource_slice("used", devices=[PARTITION]))
    await server.stop()
    server = await start_server(feature_gates={"DRAPartitionableDevices": False})
    api = connect(server)
    current = (await api.call("GET", f"{SLICES}/used")).json
    current["spec"]["devices"].append({**PARTITION, "name": "e"})
    changed = (await api.call("PUT", f"{SLICES}/used", current)).json
    assert [("consumesCounters" in each) for each in changed["spec"]["devices"]] == [True, True]
    changed["spec"]["devices"] = [{"name": "d"}]
    await api.call("PUT", f"{SLICES}/used", changed)
    changed["spec"]["devices"] = [PARTITION]
    del changed["metadata"]["resourceVersion"]
    assert (
        "consumesCounters" not in (await api.call("PUT", f"{SLICES}/used", changed)).json["spec"]["devices"][0]
    )


async def put_groups(api: Api, name: str, groups: bytes) -> Any:
    """Allocate a new claim with these compatibility groups in its result, and return the answer."""
    await api.make(CLAIMS, claim(name))
    result = b'"device":"dev-0","compatibilityGroups":' + groups
    body = b'{"status":{"allocation":' + allocation().replace(b'"device":"dev-0"', result) + b"}}"
    return (await api.call("PATCH", f"{CLAIMS}/{name}/status", body, content_type=MERGE)).json


@pytest.mark.parametrize("on", [True, False])
async def test_allocated_compatibility_groups_are_served_when_the_gate_is_on(
    start_server: StartServer, connect: Connect, on: bool
) -> None:
    """Source: KEP-5963, `map[string][]string` by counter set."""
    api = connect(await start_server(feature_gates={"DRADeviceCompatibilityGroups": on}))
    groups = {"gpu-0-counters": ["mig"], "gpu-1-counters": []}
    status = (await put_groups(api, "a", encode(groups)))["status"]
    assert status["allocation"]["devices"]["results"][0].get("compatibilityGroups") == (groups if on else None)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (b'["mig"]', "cannot unmarshal array into Go struct field"),
        (b'{"set": "mig"}', "cannot unmarshal string into Go struct field"),
        (b'{"Set": ["mig"]}', 'compatibilityGroups: Invalid value: "Set"'),
        (b'{"set": ["a", "b", "c"]}', "compatibilityGroups[set]: Too many: 3: must have at most 2 items"),
        (b'{"set": ["a", "a"]}', 'compatibilityGroups[set][1]: Duplicate value: "a"'),
        (b'{"set": ["A"]}', 'compatibilityGroups[set][0]: Invalid value: "A"'),
        (b'{"a": [], "b": [], "c": []}', "compatibilityGroups: Too many: 3: must have at most 2 items"),
    ],
)
async def test_allocated_compatibility_groups_are_validated(
    start_server: StartServer, connect: Connect, groups: bytes, words: str
) -> None:
    api = connect(await start_server(feature_gates={"DRADeviceCompatibilityGroups": True}))
    assert words in (await put_groups(api, "a", groups))["message"]


async def test_allocated_compatibility_groups_stay_when_the_gate_goes_off(
    start_server: StartServer, connect: Connect
) -> None:
    """An allocation can't be changed, so a reservation must not lose part of it."""
    server = await start_server(feature_gates={"DRADeviceCompatibilityGroups": True})
    await put_groups(connect(server), "a", b'{"set":["mig"]}')
    await server.stop()
    api = connect(await start_server())
    body = b'{"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}'
    status = (await api.call("PATCH", f"{CLAIMS}/a/status", body, content_type=MERGE)).json["status"]
    assert status["allocation"]["devices"]["results"][0]["compatibilityGroups"] == {"set": ["mig"]}


async def test_admin_access_needs_a_labeled_namespace(api: Api) -> None:
    body = claim("a").replace(b'"deviceClassName":"c"', b'"deviceClassName":"c","adminAccess":true')
    refused = await api.call("POST", CLAIMS, body)
    assert (
        "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label"
        in refused.json["message"]
    )
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await api.call("PATCH", "/api/v1/namespaces/default", label, content_type=MERGE)
    await api.make(CLAIMS, body)
