"""Compare the answers of Kubernetes' allocator and ours.

Our answer is converted into the form of Kubernetes' answer. Values that only one of them has are left out: the
timestamp, the recorded compatibility groups, and the random share IDs.
"""

from collections.abc import Mapping
from typing import Any, Final

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Refusal, allocate
from dradriver.model.encoding.codec import builtins, from_builtins
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["KNOWN", "UNANSWERED", "Json", "agree", "our_answer"]

Json = dict[str, Any]

KNOWN: Final = {
    "asks for all devices, but resource pool": "an unusable pool refuses the node only",
    "because a claim constraint would not be satisfied": "a broken constraint of All refuses the node only",
    "exceeds the claim limit of 32": "more than 32 devices refuse the node only",
}
"""Errors of Kubernetes that end a pod's scheduling, where ours refuses a node or takes another alternative."""


UNANSWERED: Final = {"slow", "panic"}
"""Kubernetes gave up after some seconds, or crashed."""


def our_answer(question: Mapping[str, Any]) -> Json:
    """Return our allocator's answer."""
    node = question["node"]
    classes = [from_builtins(DeviceClass, each) for each in question["classes"]]
    claims = [from_builtins(ResourceClaim, each) for each in question["claims"]]
    try:
        found = allocate(
            claims,
            Inventory.of(from_builtins(ResourceSlice, each) for each in question["slices"]),
            {each.metadata.name: each for each in classes},
            InUse.of(from_builtins(ResourceClaim, each) for each in question["held"]),
            AllocationNode(
                node["metadata"]["name"],
                node["metadata"]["labels"],
                frozenset(node["status"]["declaredFeatures"]),
            ),
            features=Features.of_gates(question["gates"]),
        )
    except Refusal as refusal:
        return {"verdict": refusal.kind, "error": refusal.text()}
    return {
        "verdict": "allocated",
        "allocations": [_plain(found[claim.metadata.uid or claim.ref]) for claim in claims],
    }


def _plain(allocation: Allocation) -> Json:
    return _comparable(builtins(allocation))


def _comparable(allocation: Mapping[str, Any]) -> Json:
    devices = allocation.get("devices", {})
    return {
        "results": [_result(result) for result in devices.get("results", [])],
        "config": [{**entry, "requests": entry.get("requests") or []} for entry in devices.get("config", [])],
        "nodeSelector": allocation.get("nodeSelector"),
    }


def _result(result: Mapping[str, Any]) -> Json:
    consumed = {name: Quantity(amount).nano for name, amount in result.get("consumedCapacity", {}).items()}
    tolerations = [{"operator": "Equal", **each} for each in result.get("tolerations", [])]
    compared = {name: value for name, value in result.items() if name != "compatibilityGroups"}
    return {
        **compared, "tolerations": tolerations, "shareID": "shareID" in result, "consumedCapacity": consumed,
    }  # fmt: skip


def agree(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Return whether the two answers are equal.

    Where Kubernetes exceeds its time limit, ours may exceed its budget: the problem is NP-hard. Where
    Kubernetes crashes or has a known error, ours must be an answer.
    """
    if theirs["verdict"] == "slow":
        return True
    if theirs["verdict"] == "panic" or (
        theirs["verdict"] == "claim" and any(known in theirs["error"] for known in KNOWN)
    ):
        return bool(ours["verdict"] != "undecided")
    if theirs["verdict"] != ours["verdict"]:
        return False
    if theirs["verdict"] != "allocated":
        return True
    return bool([_comparable(each) for each in theirs["allocations"]] == ours["allocations"])
