"""The components of a pool, and what equal components share."""

from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.fleet import Fleet
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.placement.fleets import fleet_of, gpu, memory, own, takes_memory
from tests.unit.allocator.worlds import Json


def node(name: str, *devices: Json, amounts: tuple[str, ...] = ("4",)) -> list[ResourceSlice]:
    """Return the slices of a node with the counter sets `set-0`, `set-1` and so on."""
    sets = [each for at, amount in enumerate(amounts) for each in memory(amount, f"set-{at}")]
    return [
        own(name, *devices, name=f"{name}-a", count=2),
        own(name, name=f"{name}-b", count=2, sharedCounters=sets),
    ]


def part(name: str, amount: str, card: int = 0) -> Json:
    return gpu(name, takes_memory(amount, f"set-{card}"))


def blueprint(fleet: Fleet, name: str) -> Blueprint:
    (entry,) = fleet.members[name].entries
    return entry.blueprint


def test_equal_components_of_different_pools_have_one_shape() -> None:
    fleet = fleet_of(
        *node("one", part("a", "2"), part("b", "3")),
        *node("two", part("x", "2"), part("y", "3"), part("z", "1", 1), amounts=("4", "4")),
    )
    (only,) = blueprint(fleet, "one").sections
    first, second = blueprint(fleet, "two").sections
    assert only.shape is first.shape is not second.shape


def test_components_with_other_amounts_have_other_shapes() -> None:
    fleet = fleet_of(*node("one", part("a", "2")), *node("two", part("a", "2"), amounts=("5",)))
    (one,), (two,) = blueprint(fleet, "one").sections, blueprint(fleet, "two").sections
    assert (one.shape.amounts, two.shape.amounts) == ((4 * 10**9,), (5 * 10**9,))


def test_devices_of_several_components_may_alternate() -> None:
    devices = part("a", "1"), part("b", "1", 1), gpu("c"), part("d", "2"), part("e", "2", 1)
    found = blueprint(fleet_of(*node("n", *devices, amounts=("4", "4"))), "n")
    assert [section.members for section in found.sections] == [(0, 3), (1, 4)]
    assert [section.mask for section in found.sections] == [0b01001, 0b10010]
    assert [section.in_pool(0b10) for section in found.sections] == [0b01000, 0b10000]
    assert [section.in_component(0b11000) for section in found.sections] == [0b10, 0b10]
    assert list(found.section_of) == [(0, 0), (1, 0), None, (0, 1), (1, 1)]
    assert found.without_counters == 0b00100


def test_a_device_that_needs_more_than_there_is_does_not_fit() -> None:
    found = blueprint(fleet_of(*node("n", part("a", "5"), part("b", "4"), gpu("c"))), "n")
    assert (found.fitting, found.every) == (0b110, 0b111)


def test_a_device_that_consumes_from_two_sets_connects_them() -> None:
    both = takes_memory("1", "set-0")["consumesCounters"] + takes_memory("1", "set-1")["consumesCounters"]
    found = blueprint(
        fleet_of(
            *node(
                "n",
                part("a", "1"),
                part("b", "1", 1),
                {"name": "c", "consumesCounters": both},
                amounts=("4", "4"),
            )
        ),
        "n",
    )
    (section,) = found.sections
    assert section.members == (0, 1, 2)
    assert section.shape.needs == (((0, 10**9),), ((1, 10**9),), ((0, 10**9), (1, 10**9)))


def test_a_pool_whose_device_consumes_a_missing_counter_has_no_components_and_a_problem() -> None:
    found = blueprint(fleet_of(*node("n", part("a", "1", 7))), "n")
    assert not found.sections
    assert "set-7" in (found.problem or "")
