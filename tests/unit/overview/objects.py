"""Objects of small clusters, and their overviews."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node, Pod
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim
from dradriver.model.resource.device import Taint
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from dradriver.overview import Card, Overview, OverviewTracker, build_overview
from dradriver.testing.builders import allocated, claim
from tests.unit.cli.worlds import GPU_DRIVER, a100

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def mig_slices(node: str = "node-1", gpus: int = 1) -> list[ResourceSlice]:
    """The slices of a node with A100 GPUs, with every MIG placement."""
    return [from_builtins(ResourceSlice, each) for each in a100(node, gpus)]


def holding(
    name: str, *devices: str, pods: Iterable[str] = (), driver: str = GPU_DRIVER, node: str = "node-1"
) -> ResourceClaim:
    """A claim that was allocated these devices, reserved for pods."""
    held = allocated(claim(name=name), *devices, driver=driver, node_name=node)
    users = [ConsumerReference(resource="pods", name=pod, uid=pod) for pod in pods]
    return replace(held, status=replace(held.status, reserved_for=users))


def rule(name: str, taint: str, **selected: str) -> DeviceTaintRule:
    """A rule with the taint `key:effect` for the selected devices."""
    key, _, effect = taint.partition(":")
    spec = DeviceTaintRuleSpec(
        taint=from_builtins(Taint, {"key": key, "effect": effect}),
        device_selector=DeviceTaintSelector(**selected),
    )
    return DeviceTaintRule(metadata=ObjectMeta(name=name), spec=spec)


def pod_of(*claims: str, name: str = "train-0", node: str = "", **status: Any) -> Pod:
    """A pod with these claims. `status` has the fields of the pod's status in camelCase."""
    spec = {
        "nodeName": node,
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
    }
    meta = {"name": name, "namespace": "default", "uid": name}
    return from_builtins(Pod, {"metadata": meta, "spec": spec, "status": status})


def health_of(claim_name: str, **health: str) -> dict[str, Any]:
    """The status of a container that reports the health of devices by resource ID (KEP-4680)."""
    resources = [{"resourceID": name, "health": word} for name, word in health.items()]
    entry = {"name": f"claim:{claim_name}", "resources": resources}
    return {"name": "main", "allocatedResourcesStatus": [entry]}


def overview(*objects: object) -> Overview:
    """The overview of objects of any kinds."""

    def of(kind: type[Any]) -> list[Any]:
        return [each for each in objects if isinstance(each, kind)]

    return build_overview(of(ResourceSlice), of(ResourceClaim), of(Pod), of(Node), of(DeviceTaintRule), now=NOW)


def only_card(shown: Overview) -> Card:
    """The only card of the only node."""
    (node,) = shown.nodes.values()
    (card,) = node.cards
    return card


def tracking(*objects: object) -> OverviewTracker:
    """A tracker that has computed these objects."""
    tracker = OverviewTracker()
    for each in objects:
        apply(tracker, None, each)
    tracker.update(NOW)
    return tracker


def apply(tracker: OverviewTracker, old: Any, new: Any) -> None:
    """Apply a change of an object of any kind."""
    methods: dict[type, Callable[[Any, Any], None]] = {
        ResourceSlice: tracker.apply_slice,
        ResourceClaim: tracker.apply_claim,
        Pod: tracker.apply_pod,
        Node: tracker.apply_node,
        DeviceTaintRule: tracker.apply_rule,
    }
    methods[type(old if new is None else new)](old, new)
