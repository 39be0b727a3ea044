"""Which choices of a search on bit sets are equivalent."""

from collections.abc import Sequence

from dradriver.allocator import PACKED, Features, Inventory
from dradriver.allocator.placement.evaluation.bit_search import Layout
from dradriver.allocator.placement.evaluation.bit_search.symmetry import BitSymmetry, StateKeys
from dradriver.model.resource.claim import DeviceResult
from dradriver.testing.builders import allocated
from tests.unit.allocator.bit_nodes import BitNode
from tests.unit.allocator.worlds import DRIVER, NODE, Json, claim, request, slice_

START = -1
EVERY = 0b1111


def device(name: str, gpu: str) -> Json:
    return {"name": name, "consumesCounters": [{"counterSet": gpu, "counters": {"cores": {"value": "1"}}}]}


def two_gpus(*held: str) -> BitNode:
    """Return a node with two equal GPUs, each of two equal devices: 0 and 1, and 2 and 3. Some are held."""
    gpus = "gpu-0", "gpu-1"
    sets = [{"name": gpu, "counters": {"cores": {"value": "4"}}} for gpu in gpus]
    parts = [device(f"{gpu}-{letter}", gpu) for gpu in gpus for letter in "ab"]
    slices = [slice_("counters", count=2, sharedCounters=sets), slice_("devices", *parts, count=2)]
    results = [DeviceResult(request="gpu", driver=DRIVER, pool="pool", device=name) for name in held]
    holders = [allocated(claim(request(), name=result.device), result) for result in results]
    return BitNode(NODE, Inventory.of(slices), holders, Features(), PACKED)


def keys(*held: str, candidates: Sequence[int] = (EVERY,), values: Sequence[Sequence[int]] = ()) -> StateKeys:
    """Return the keys of a search for candidates, with the values of constraints."""
    pools = two_gpus(*held).pools
    layout = Layout([pool.blueprint for pool in pools])
    return StateKeys(BitSymmetry(layout, candidates, values), pools[0].states)


def test_equal_devices_of_equal_gpus_are_equivalent() -> None:
    known = keys()
    assert len({known.choice(device, 0, ()) for device in range(4)}) == 1
    assert known.state(0b0001, ()) == known.state(0b0100, ())
    assert known.state(0b0011, ()) == known.state(0b1100, ())


def test_a_device_is_another_one_once_its_gpu_is_in_use() -> None:
    known = keys()
    assert known.choice(1, 0b0001, ()) != known.choice(2, 0b0001, ())
    assert known.state(0b0011, ()) != known.state(0b0101, ())


def test_a_gpu_of_which_claims_hold_devices_is_another_one() -> None:
    known = keys("gpu-0-a")
    assert known.choice(1, 0, ()) != known.choice(3, 0, ())
    assert known.state(0b0010, ()) != known.state(0b1000, ())


def test_devices_with_other_candidates_differ() -> None:
    known = keys(candidates=(EVERY, 0b0011))
    assert known.choice(0, 0, ()) == known.choice(1, 0, ())
    assert known.choice(0, 0, ()) != known.choice(2, 0, ())


def test_values_that_only_one_gpu_has_make_no_difference() -> None:
    known = keys(values=[[4, 4, 8, 8]])
    assert known.choice(0, 0, (START,)) == known.choice(2, 0, (START,))
    assert known.state(0b0001, (4,)) == known.state(0b0100, (8,))
    assert known.state(0b0001, (4,)) != known.state(0b0001, (START,))


def test_values_that_several_gpus_have_make_a_difference() -> None:
    known = keys(values=[[4, 8, 8, 4]])
    assert known.choice(0, 0, (START,)) != known.choice(1, 0, (START,))
    assert known.state(0b0001, (4,)) != known.state(0b0001, (8,))


def test_a_constraint_tells_a_gpu_in_use_from_an_unused_one() -> None:
    # The constraint does not cover the requests that chose devices 0 and 2, but it has accepted the value of
    # the first GPU.
    known = keys(values=[[4, 4, 8, 8]])
    assert known.choice(1, 0b0101, (START,)) == known.choice(3, 0b0101, (START,))
    assert known.choice(1, 0b0101, (4,)) != known.choice(3, 0b0101, (4,))
