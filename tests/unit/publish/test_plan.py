"""The number and the content of the writes for each change."""

from datetime import UTC, datetime

from msgspec.structs import replace

from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish.plan import Action, Create, Delete, Update, plan

OWNER = OwnerReference(api_version="v1", kind="Node", name="node", uid="u", controller=True)
ADDED = datetime(2026, 1, 1, tzinfo=UTC)


def wanted(*devices: Device) -> list[ResourceSliceSpec]:
    return [_spec(device, 0, len(devices)) for device in devices]


def published(generation: int, *devices: Device) -> list[ResourceSlice]:
    return [
        ResourceSlice(
            metadata=ObjectMeta(
                name=f"{index:05x}-d-node-abc", uid=f"u{index}", resource_version="1", owner_references=[OWNER]
            ),
            spec=_spec(device, generation, len(devices)),
        )
        for index, device in enumerate(devices)
    ]


def _spec(device: Device, generation: int, count: int) -> ResourceSliceSpec:
    pool = PoolReference(name="p", generation=generation, resource_slice_count=count)
    return ResourceSliceSpec(driver="d", pool=pool, node_name="node", devices=[device])


def kinds(actions: list[Action]) -> list[type]:
    return [type(action) for action in actions]


A, B, C, X = Device("a"), Device("b"), Device("c"), Device("x")


def test_unchanged_slices_need_no_write() -> None:
    assert plan(wanted(A, B), published(4, A, B), owner=OWNER) == []


def test_slice_names_have_the_format_of_go_drivers() -> None:
    first, second = plan(wanted(A, B), [], owner=OWNER)
    assert isinstance(first, Create)
    assert isinstance(second, Create)
    assert first.new.metadata.generate_name == "00000-d-node-"
    assert second.new.metadata.generate_name == "00001-d-node-"
    assert first.new.metadata.owner_references == [OWNER]
    assert first.new.spec.pool == PoolReference(name="p", generation=1, resource_slice_count=2)


def test_one_changed_slice_is_one_update_in_its_generation() -> None:
    (action,) = plan(wanted(A, X), published(4, A, B), owner=OWNER)
    assert isinstance(action, Update)
    assert action.new.spec.pool.generation == 4
    assert action.new.metadata.name == "00001-d-node-abc"


def test_two_changed_slices_begin_a_new_generation() -> None:
    actions = plan(wanted(A, X, X), published(4, A, B, C), owner=OWNER)
    assert kinds(actions) == [Update] * 3
    assert {a.new.spec.pool.generation for a in actions if isinstance(a, Update)} == {5}


def test_an_additional_slice_begins_a_new_generation() -> None:
    assert kinds(plan(wanted(A, B), published(4, A), owner=OWNER)) == [Update, Create]


def test_fewer_slices_delete_the_rest_last() -> None:
    assert kinds(plan(wanted(A), published(4, A, B), owner=OWNER)) == [Update, Delete]


def test_a_deleted_slice_is_created_again_without_other_writes() -> None:
    (action,) = plan(wanted(A, B, C), published(4, A, B, C)[1:], owner=OWNER)
    assert isinstance(action, Create)
    assert action.new.spec.pool.generation == 4


def test_the_drivers_generation_wins_if_it_is_larger() -> None:
    (action,) = plan(wanted(A), published(4, A), owner=OWNER, generation=9)
    assert isinstance(action, Update)
    assert action.new.spec.pool.generation == 9
    assert plan(wanted(A), published(9, A), owner=OWNER, generation=4) == []


def test_only_a_duplicate_is_deleted() -> None:
    (original,) = published(4, A)
    double = replace(original, metadata=replace(original.metadata, name="00000-d-node-zzz", uid="other"))
    assert plan(wanted(A), [original, double], owner=OWNER) == [Delete(double)]


def test_leftovers_of_an_older_generation_are_deleted() -> None:
    (stale,) = published(3, X)
    stale = replace(stale, metadata=replace(stale.metadata, name="00007-d-node-old", uid="old"))
    assert plan(wanted(A), [*published(4, A), stale], owner=OWNER) == [Delete(stale)]


def test_a_recreated_node_becomes_the_owner() -> None:
    new = replace(OWNER, uid="new")
    (action,) = plan(wanted(A), published(4, A), owner=new)
    assert isinstance(action, Update)
    assert action.new.metadata.owner_references == [new]
    assert action.new.spec.pool.generation == 4


def test_the_time_of_a_taint_is_kept_and_not_compared() -> None:
    taint = Taint(key="k", effect="NoSchedule")
    old = Device("a", taints=[replace(taint, time_added=ADDED)])
    assert plan(wanted(Device("a", taints=[taint])), published(4, old), owner=OWNER) == []
    more = Device("a", taints=[taint, Taint(key="other", effect="None")])
    (action,) = plan(wanted(more), published(4, old), owner=OWNER)
    assert isinstance(action, Update)
    assert [t.time_added for t in action.new.spec.devices[0].taints] == [ADDED, None]


def test_a_pool_that_becomes_shared_gets_new_slices() -> None:
    shared = [replace(spec, node_name=None, all_nodes=True) for spec in wanted(A)]
    assert kinds(plan(shared, published(4, A), owner=OWNER)) == [Create, Delete]
