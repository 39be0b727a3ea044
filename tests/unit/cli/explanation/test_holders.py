"""`dradriver explain` names the claims and pods that hold what a refused device needs."""

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result
from msgspec.structs import replace

from dradriver.model.resource.claim import ConsumerReference, DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import PoolReference, ResourceSlice
from dradriver.testing.builders import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    device_request,
    node,
    slice_,
)
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]
GATE = ("--feature-gates", "DRADeviceCompatibilityGroups=true")


def consuming(name: str, counter_set: str, *groups: str, **amounts: str) -> Device:
    return replace(
        device(name),
        consumes_counters=[
            CounterConsumption(
                counter_set,
                dict(CounterSet(counter_set, amounts).counters),
                compatibility_groups=groups,
            )
        ],
    )


def pool(*devices: Device, sets: tuple[str, ...] = ("card",)) -> list[ResourceSlice]:
    """A pool of two slices: the counter sets, and the devices."""
    shared = [CounterSet(name, {"memory": "40Gi", "cores": "8"}) for name in sets]
    return [
        slice_(counter_sets=shared, count=2, name="counters"),
        slice_(*devices, count=2),
    ]


def held(name: str, device_name: str, pod: str = "") -> ResourceClaim:
    made = allocated(claim(name=name), device_name)
    users = [ConsumerReference(resource="pods", name=pod, uid=f"uid-{pod}")] if pod else []
    return replace(made, status=replace(made.status, reserved_for=users))


def explain(dradriver: Command, *objects: object, options: tuple[str, ...] = ()) -> list[str]:
    arguments = ("explain", "claim", "claim-1", "-f", "-", *options)
    result = dradriver(*arguments, stdin=listed(device_class(), *objects))
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.stdout.splitlines()]


def holders(dradriver: Command, *objects: object, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    arguments = ("explain", "claim", "claim-1", "-o", "json", "-f", "-", *options)
    result = dradriver(*arguments, stdin=listed(device_class(), *objects))
    groups = json.loads(result.stdout)["nodes"]
    return [holder for each in groups for request in each["requests"] for holder in request["holders"]]


def test_the_holders_of_a_counter_are_named_below_the_reason(dradriver: Command) -> None:
    devices = [
        consuming("whole", "card", memory="40Gi"),
        consuming("half", "card", memory="20Gi", cores="4"),
        consuming("clock", "card", cores="1"),
    ]
    objects = [*pool(*devices), held("a", "half", "train"), held("b", "clock"), claim()]
    lines = explain(dradriver, *objects)
    at = next(number for number, line in enumerate(lines) if "counter memory of counter set card" in line)
    assert lines[at + 1] == (
        f"claim default/a (pod default/train) holds {DRIVER}/node-1/half, "
        "which takes 20Gi of memory from counter set card"
    )
    assert not any("clock, which" in line for line in lines), "it takes nothing of the missing counter"


def test_programs_get_the_holders_as_data(dradriver: Command) -> None:
    devices = [consuming("whole", "card", memory="40Gi"), consuming("half", "card", memory="20Gi")]
    assert holders(dradriver, *pool(*devices), held("a", "half", "train"), claim()) == [
        {
            "device": f"{DRIVER}/node-1/half",
            "claims": ["default/a"],
            "pods": ["default/train"],
            "counterSet": "card",
            "counters": {"memory": "20Gi"},
            "groups": None,
        }
    ]


def test_the_holders_of_compatibility_groups_are_named_with_their_groups(dradriver: Command) -> None:
    devices = [
        consuming("vgpu", "card", "vgpu", memory="10Gi"),
        consuming("mig", "card", "mig", "any", memory="10Gi"),
        consuming("other", "card-2", "mig", memory="10Gi"),
        consuming("vgpu-2", "card-2", memory="10Gi"),
    ]
    objects = [
        *pool(*devices, sets=("card", "card-2")),
        held("a", "mig", "train"),
        held("b", "vgpu-2", "plain"),
        claim(),
    ]
    lines = explain(dradriver, *objects, options=GATE)
    assert [line for line in lines if "uses counter set" in line] == [
        f"claim default/a (pod default/train) holds {DRIVER}/node-1/mig, "
        "which uses counter set card with groups mig, any",
        f"claim default/b (pod default/plain) holds {DRIVER}/node-1/vgpu-2, "
        "which uses counter set card-2 with no groups",
    ]


def test_only_the_counter_sets_of_refused_devices_are_considered(dradriver: Command) -> None:
    devices = [
        consuming("whole", "card", memory="40Gi"),
        consuming("half", "card", memory="20Gi"),
        consuming("half-2", "card-2", memory="20Gi"),
    ]
    objects = [*pool(*devices, sets=("card", "card-2")), held("a", "half"), held("b", "half-2"), claim()]
    assert [each["claims"] for each in holders(dradriver, *objects)] == [["default/a"]]


def test_nodes_that_share_a_pool_have_one_answer_with_its_holders(dradriver: Command) -> None:
    devices = [consuming("whole", "card", memory="40Gi"), consuming("half", "card", memory="20Gi")]
    fabric = PoolReference(name="fabric", generation=1, resource_slice_count=2)
    taken = DeviceResult(request="device", driver=DRIVER, pool="fabric", device="half")
    shared = [
        replace(each, spec=replace(each.spec, node_name=None, all_nodes=True, pool=fabric))
        for each in pool(*devices)
    ]
    lines = explain(
        dradriver, *shared, node("node-1"), node("node-2"), allocated(claim(name="a"), taken), claim()
    )
    assert any(line.startswith("node-1, node-2: ") for line in lines)
    (shown,) = [line for line in lines if "which takes" in line]
    assert shown.startswith(f"claim default/a holds {DRIVER}/fabric/half")


def test_at_most_four_holders_are_printed(dradriver: Command) -> None:
    parts = [consuming(f"part-{number}", "card", memory="8Gi") for number in range(5)]
    objects = [*pool(consuming("whole", "card", memory="40Gi"), *parts), claim()]
    objects += [held(f"a-{number}", f"part-{number}") for number in range(5)]
    lines = explain(dradriver, *objects)
    assert sum("which takes" in line for line in lines) == 4
    assert "and 1 more: `-o json` lists them" in lines
    assert len(holders(dradriver, *objects)) == 5


def test_a_shortage_within_the_claim_has_no_holders(dradriver: Command) -> None:
    devices = [consuming("whole", "card", memory="40Gi"), consuming("half", "card", memory="20Gi")]
    assert holders(dradriver, *pool(*devices), claim(device_request(count=2))) == []


def test_a_counter_that_is_overdrawn_blocks_the_whole_pool(dradriver: Command) -> None:
    """A driver reduced a counter below the amount in use."""
    devices = [
        consuming("large", "card", memory="80Gi"),
        consuming("small", "card-2", memory="1Gi"),
    ]
    objects = [*pool(*devices, sets=("card", "card-2")), held("a", "large"), claim()]
    (holder,) = holders(dradriver, *objects)
    assert (holder["claims"], holder["counterSet"], holder["counters"]) == (
        ["default/a"],
        "card",
        {"memory": "80Gi"},
    )
