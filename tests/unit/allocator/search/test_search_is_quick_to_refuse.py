"""The number of devices that the search tries, and its reports."""

import pytest

from dradriver.allocator import Features, Meter, Order, Refusal, Reporter
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import a100, claim, devices, profile, request, slice_, try_on


class Recorder(Reporter):
    """Keeps the reports."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.steps = -1

    def chosen(self, request: str, device: DeviceId) -> None:
        self.events.append(f"{request} takes {device.device}")

    def backtracked(self, request: str, device: DeviceId) -> None:
        self.events.append(f"{request} gives back {device.device}")

    def finished(self, steps: int, *, found: bool) -> None:
        self.steps = steps


def steps_to_refuse(
    slices: list[ResourceSlice], *claims: ResourceClaim, features: Features | None = None
) -> int:
    recorder = Recorder()
    with pytest.raises(Refusal) as caught:
        try_on(slices, *claims, reporter=recorder, features=features)
    assert caught.value.kind == "node"
    return recorder.steps


def test_nine_requests_for_eight_devices_are_refused_without_a_step() -> None:
    wanted = [request(f"r{number}") for number in range(9)]
    assert steps_to_refuse([slice_("a", *(f"gpu-{n}" for n in range(8)))], claim(*wanted)) == 0


def test_nine_full_gpus_of_eight_with_partitions_are_refused_without_a_step() -> None:
    wanted = [claim(request(expression=profile("7g.40gb")), name=f"c{n}") for n in range(9)]
    assert steps_to_refuse(a100(8), *wanted) == 0


def test_seventeen_3g_on_eight_gpus_are_refused_without_a_step() -> None:
    wanted = [request(f"r{n}", profile("3g.20gb")) for n in range(17)]
    assert steps_to_refuse(a100(8), claim(*wanted)) == 0


def test_sixteen_3g_are_found_without_backtracking() -> None:
    recorder = Recorder()
    found = try_on(a100(8), claim(request(expression=profile("3g.20gb"), count=16)), reporter=recorder)
    assert (len(devices(found)), recorder.steps) == (16, 16)


def test_of_eight_equal_gpus_one_is_tried() -> None:
    """A 1g and a full GPU never share a GPU, on any of the eight."""
    wanted = [request("small", profile("1g.5gb")), request("whole", profile("7g.40gb"))]
    same = [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    on_two = steps_to_refuse(a100(2), claim(*wanted, constraints=same))
    assert steps_to_refuse(a100(8), claim(*wanted, constraints=same)) == on_two == 7


def test_equal_devices_are_tried_once() -> None:
    equal = [{"name": f"gpu-{n}", "attributes": {"numa": {"ints": [0, 1]}}} for n in range(20)]
    distinct = [{"distinctAttribute": "gpu.example.com/numa"}]
    lists = Features(list_type_attributes=True)
    pair = claim(request(count=2), constraints=distinct)
    assert steps_to_refuse([slice_("a", *equal)], pair, features=lists) == 1


def test_more_devices_than_different_values_are_refused_without_a_step() -> None:
    members = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n % 3}}} for n in range(20)]
    distinct = [{"distinctAttribute": "gpu.example.com/numa"}]
    wanted = [request(f"r{number}", count=2) for number in range(2)]
    assert steps_to_refuse([slice_("a", *members)], claim(*wanted, constraints=distinct)) == 0


def test_a_reporter_receives_chosen_and_released_devices() -> None:
    large = {"name": "large", "attributes": {"size": {"int": 9}}}
    wanted = [request("any"), request("large", "device.attributes['gpu.example.com'].?size.orValue(0) == 9")]
    recorder = Recorder()
    try_on([slice_("a", large, "small")], claim(*wanted), reporter=recorder)
    assert recorder.events == [
        "default/claim:any takes large",
        "default/claim:any gives back large",
        "default/claim:any takes small",
        "default/claim:large takes large",
    ]


def test_giving_up_is_undecided() -> None:
    with pytest.raises(Refusal, match=r"within 0.15 ms of work: .*\d0 % device choices") as caught:
        try_on([slice_("a", "a", "b", "c", "d")], claim(request(count=4)), meter=Meter(150))
    assert caught.value.kind == "undecided"


def test_a_request_may_need_more_devices_than_python_has_frames() -> None:
    slices = [slice_(f"s{n:02}", *(f"gpu-{n}-{k}" for k in range(128)), count=16) for n in range(16)]
    claims = [claim(request(count=32), name=f"c{n}") for n in range(64)]
    assert len(devices(try_on(slices, *claims))) == 2048


def test_another_order_chooses_other_devices() -> None:
    last_first = Order("last first", lambda supply: [(-n,) for n in range(len(supply.devices))])
    assert devices(try_on([slice_("a", "a", "b")], claim(request()), order=last_first)) == ["b"]


def test_small_requests_before_large_ones_are_not_tried_exhaustively() -> None:
    """One GPU is partly used and seven are free. After the small requests all eight are needed undivided."""
    small = [request(f"s{n}", profile("1g.5gb")) for n in range(7)]
    odd = [request(f"o{n}", profile("2g.10gb")) for n in range(3)]
    whole = [claim(request(expression=profile("7g.40gb")), name=f"w{n}") for n in range(7)]
    assert steps_to_refuse(a100(8), claim(*small, *odd), *whole) < 2000
    recorder = Recorder()
    found = try_on(a100(9), claim(*small, *odd), *whole, reporter=recorder)
    assert len(devices(found)) == 17
    assert recorder.steps < 2000


def test_a_claim_that_never_fits_is_found_beside_claims_with_admin_access() -> None:
    """The first claims can be served in very many ways, the last in none: no model has three devices."""
    equal = [{"name": f"gpu-{n}", "attributes": {"model": {"int": n // 2}}} for n in range(14)]
    anything = [claim(request(count=3, adminAccess=True), name=f"c{n}") for n in range(2)]
    same = [{"matchAttribute": "gpu.example.com/model"}]
    wanted = [request("admin", count=2, adminAccess=True), request("plain", count=1)]
    assert steps_to_refuse([slice_("a", *equal)], *anything, claim(*wanted, constraints=same)) < 2000


def test_counter_sets_for_one_device_each_are_not_tried_exhaustively() -> None:
    """Five devices that take 4 each are needed. Each of four sets has 7, which is enough for one device."""
    slices = []
    for pool in ("p0", "p1", "p2", "p3"):
        consumes = [{"counterSet": "set", "counters": {"cores": {"value": "4"}}}]
        members = [
            {
                "name": f"d{n}",
                "attributes": {"serial": {"string": f"{pool}-{n}"}},
                "consumesCounters": consumes,
            }
            for n in range(10)
        ]
        sets = [{"name": "set", "counters": {"cores": {"value": "7"}}}]
        slices += [
            slice_(f"{pool}-devices", *members, pool=pool, count=2),
            slice_(f"{pool}-counters", pool=pool, count=2, sharedCounters=sets),
        ]
    serial = [{"distinctAttribute": "gpu.example.com/serial"}]
    wanted = [request("two", count=2), request("three", count=3)]
    assert steps_to_refuse(slices, claim(*wanted, constraints=serial)) < 200
