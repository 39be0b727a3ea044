"""Fields behind a feature gate: both API servers keep and drop the same, with gates on, off and by default."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conformance.apiserver.suite import DRA, MERGE, Api
from tests.e2e.bed import api_server_clients, control_plane
from tests.e2e.bed.bed import Bed

_SWITCHABLE = (
    "DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaintRules", "DRADeviceTaints",
    "DRAFractionalCapacityRange", "DRAPartitionableDevices",
)  # fmt: skip
OFF: Final = dict.fromkeys(_SWITCHABLE, False)
GATES: Final[Mapping[str, Mapping[str, bool]]] = {
    "as shipped": {}, "all on": control_plane.ALL_GATES, "off": OFF,
}  # fmt: skip
META: Final = "metadata: {name: gated}"
SLICES: Final = {
    "devices": f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
{META}
spec:
  driver: d.example.com
  nodeName: node-1
  pool: {{name: node-1, generation: 1, resourceSliceCount: 2}}
  partitionTypeAttribute: d.example.com/type
  skipNodeOperations: ["*"]
  devices:
  - name: plain
    attributes: {{type: {{string: x}}, list: {{strings: [a, b]}}}}
    taints: [{{key: k, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}}]
    bindsToNode: true
    bindingConditions: [ready]
    bindingFailureConditions: [failed]
    allowMultipleAllocations: true
    capacity:
      memory:
        value: 8Gi
        requestPolicy: {{default: 1Gi, validRange: {{min: 1Gi, step: 1Gi}}}}
  - name: part
    attributes: {{type: {{string: y}}}}
    consumesCounters: [{{counterSet: set, counters: {{memory: {{value: 1Gi}}}}, compatibilityGroups: [g]}}]
""",
    "counters": f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
{META}
spec:
  driver: d.example.com
  nodeName: node-1
  pool: {{name: node-1, generation: 1, resourceSliceCount: 2}}
  sharedCounters: [{{name: set, counters: {{memory: {{value: 8Gi}}}}}}]
""",
    "per device": f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
{META}
spec:
  driver: d.example.com
  perDeviceNodeSelection: true
  pool: {{name: p, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: a, nodeName: node-1}}, {{name: b, allNodes: true}}]
""",
}
CLAIM: Final = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
{META}
spec:
  devices:
    requests:
    - name: one
      exactly:
        deviceClassName: c
        tolerations: [{{key: k, operator: Exists}}]
        capacity: {{requests: {{memory: 1Gi}}}}
        derivedAttributes: [{{name: d.example.com/x, expression: "1"}}]
    - name: two
      firstAvailable: [{{name: s, deviceClassName: c, tolerations: [{{operator: Exists}}]}}]
    constraints: [{{matchAttribute: d.example.com/x}}]
"""
STATUS: Final = """
status:
  allocation:
    devices:
      results:
      - request: one
        driver: d.example.com
        pool: p
        device: d
        shareID: 8a1b7c52-3a7e-4d8e-9c57-5a1d6f2f7f10
        consumedCapacity: {memory: 1Gi}
        bindingConditions: [ready]
        bindingFailureConditions: [failed]
        skipNodeOperations: ["*"]
  devices:
  - {driver: d.example.com, pool: p, device: d, shareID: 8a1b7c52-3a7e-4d8e-9c57-5a1d6f2f7f10}
"""


@pytest.fixture(scope="module", params=GATES)
def gates(request: pytest.FixtureRequest) -> Mapping[str, bool]:
    return GATES[request.param]


@pytest.fixture(scope="module")
def bed(gates: Mapping[str, bool], real_control_plane: Bed) -> Iterator[Bed]:
    if not gates:
        yield real_control_plane
        return
    with Bed() as bed:
        control_plane.start(bed, gates)
        yield bed


@pytest.fixture
async def real(bed: Bed) -> AsyncIterator[Api]:
    async with api_server_clients.real(bed) as api:
        yield api


@pytest.fixture
async def embedded(gates: Mapping[str, bool], tmp_path: Path) -> AsyncIterator[Api]:
    async with api_server_clients.embedded(tmp_path, gates) as api:
        yield api


def body(text: str) -> bytes:
    return json.dumps(yaml.safe_load(text)).encode()


def without_nulls(value: Any) -> Any:
    """Return the value without null members, which Go writes for some empty lists."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def kept(answer: dict[str, Any]) -> Any:
    return answer.get("spec") or answer["message"]


@pytest.mark.parametrize("name", SLICES)
async def test_slices(real: Api, embedded: Api, name: str) -> None:
    path, params = f"{DRA}/resourceslices", {"dryRun": "All"}
    ours, theirs = [
        (await api.call("POST", path, body(SLICES[name]), params=params)).json for api in (embedded, real)
    ]
    assert kept(ours) == kept(theirs)


async def test_claims_and_their_status(real: Api, embedded: Api) -> None:
    path = f"{DRA}/namespaces/default/resourceclaims"
    seen = []
    for api in (embedded, real):
        made = (await api.call("POST", path, body(CLAIM))).json
        status = (await api.call("PATCH", f"{path}/gated/status", body(STATUS), content_type=MERGE)).json
        await api.call("DELETE", f"{path}/gated")
        seen.append(without_nulls([kept(made), status.get("status"), status.get("message")]))
    assert seen[0] == seen[1]
