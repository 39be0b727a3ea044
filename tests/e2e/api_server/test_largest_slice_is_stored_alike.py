"""KEP-4815, Test Plan: a ResourceSlice of the largest valid size stays within etcd's limit."""

import json
from typing import Any, Final

import pytest

from dradriver.model.resource.counters import MAX_CONSUMPTIONS, MAX_COUNTERS, MAX_SLICE_COUNTERS
from tests.conformance.apiserver.suite import DRA, Api

_NAMES: Final = 32
"""Attributes and capacities of one device."""
_DEVICES: Final = MAX_SLICE_COUNTERS // MAX_COUNTERS
"""With all counters of one consumption; and as many devices of a slice may have taints or counters."""
_DOMAIN: Final = ".".join(["d" * 31, "e" * 31])


def label(number: int, length: int = 63) -> str:
    """Return a DNS label, or C identifier, of this length."""
    return f"n{number:03}".ljust(length, "x")


def device(number: int) -> dict[str, Any]:
    """Return a device in which each value has the maximum length."""
    values = [str(9_000_000_000_000_000_000 + value) for value in range(10)]
    counters = MAX_COUNTERS // MAX_CONSUMPTIONS
    return {
        "name": label(number),
        "allowMultipleAllocations": True,
        "bindsToNode": True,
        "bindingConditions": [f"{_DOMAIN}/{label(each)}" for each in range(4)],
        "bindingFailureConditions": [f"{_DOMAIN}/{label(each + 4)}" for each in range(4)],
        "capacity": {
            f"{_DOMAIN}/{label(each, 32)}": {
                "value": values[-1],
                "requestPolicy": {"default": values[0], "validValues": values},
            }
            for each in range(_NAMES)
        },
        "consumesCounters": [
            {
                "counterSet": label(each),
                "counters": {label(counter): {"value": values[-1]} for counter in range(counters)},
                "compatibilityGroups": [label(0), label(1)],
            }
            for each in range(MAX_CONSUMPTIONS)
        ],
        "taints": [
            {"key": f"{_DOMAIN}/{label(each)}", "value": label(each), "effect": "NoSchedule"}
            for each in range(4)
        ],
    }


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
async def test_the_largest_slice_is_stored_completely(real: Api, embedded: Api) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "largest"},
        "spec": {
            "driver": f"{_DOMAIN}",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 2},
            "devices": [device(number) for number in range(_DEVICES)],
        },
    }
    assert len(json.dumps(body, separators=(",", ":"))) > 1_130_000
    for api in (real, embedded):
        stored = await api.call("POST", f"{DRA}/resourceslices", body)
        assert stored.status == 201, stored.json.get("message", "")[:500]
        assert len(stored.json["spec"]["devices"]) == _DEVICES
        await api.call("DELETE", f"{DRA}/resourceslices/largest")
