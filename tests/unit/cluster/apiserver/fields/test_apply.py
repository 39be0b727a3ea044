"""Ownership of fields, tested as pure functions of objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.cluster.apiserver.fields.apply import (
    ApplyResult,
    Manager,
    apply,
    record_apply,
    record_update,
    set_entries,
)
from dradriver.cluster.apiserver.fields.field_sets import collect_leaves, format_path, from_tree, to_tree
from dradriver.cluster.apiserver.status import StatusError

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
POD = "core.Pod"
PATHS = st.sets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', "v:1"]), min_size=1, max_size=4).map(tuple)
)


def manager(name: str, operation: str = "Apply") -> Manager:
    return Manager(name, operation, "v1")


def apply_config(live: Json, config: Json, name: str, *, force: bool = False, kind: str = POD) -> Json:
    """Return the object after an apply, with its managedFields."""
    result: ApplyResult = apply(kind, live, {"metadata": {}, **config}, manager(name), force=force)
    obj = {**result.object, "metadata": dict(live["metadata"])}
    record_apply(obj, result, manager(name), NOW)
    return obj


def containers(*items: Json) -> Json:
    return {"spec": {"containers": list(items)}}


EMPTY: Json = {"metadata": {}}


@given(PATHS)
def test_a_field_set_survives_encoding(paths: set[tuple[str, ...]]) -> None:
    # A path that others go on from is written as a member of its own only with a dot.
    kept = {path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)}
    assert from_tree(to_tree(kept)) == kept


def test_items_of_keyed_lists_are_owned_one_by_one() -> None:
    found = collect_leaves(POD, containers({"name": "a", "image": "i"}))
    assert {format_path(path) for path in found} == {
        '.spec.containers[name="a"]',
        '.spec.containers[name="a"].name',
        '.spec.containers[name="a"].image',
    }


def test_atomic_lists_and_structs_have_one_owner() -> None:
    spec = {
        "tolerations": [{"key": "a"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
        },
    }
    paths = {format_path(path) for path in collect_leaves(POD, {"spec": spec})}
    assert paths == {
        ".spec.tolerations",
        ".spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    }


def test_an_omitted_protocol_of_a_port_is_part_of_its_key() -> None:
    one = collect_leaves(POD, containers({"name": "a", "ports": [{"containerPort": 1}]}))
    two = collect_leaves(POD, containers({"name": "a", "ports": [{"containerPort": 1, "protocol": "TCP"}]}))
    assert set(one) < set(two)


def test_two_appliers_add_items_to_one_list() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1"}), "one")
    both = apply_config(first, containers({"name": "b", "image": "2"}), "two")
    assert [each["name"] for each in both["spec"]["containers"]] == ["a", "b"]
    left = apply_config(both, {"spec": {}}, "one")
    assert [each["name"] for each in left["spec"]["containers"]] == ["b"]


def test_an_applier_removes_only_fields_without_another_owner() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1"}), "one")
    second = apply_config(first, containers({"name": "a", "image": "1", "command": ["x"]}), "two")
    left = apply_config(second, {"spec": {}}, "one")
    assert left["spec"]["containers"] == [{"name": "a", "image": "1", "command": ["x"]}]


def test_the_live_object_is_never_changed() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1", "args": ["x"]}), "one")
    before = str(first)
    apply_config(first, containers({"name": "a", "image": "2"}), "one")
    assert str(first) == before


def test_a_conflict_lists_every_field() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1", "workingDir": "/"}), "one")
    with pytest.raises(StatusError) as refused:
        apply_config(first, containers({"name": "a", "image": "2", "workingDir": "/x"}), "two")
    assert "Apply failed with 2 conflicts" in refused.value.message
    assert [cause.field for cause in refused.value.causes] == [
        '.spec.containers[name="a"].image', '.spec.containers[name="a"].workingDir',
    ]  # fmt: skip


def test_force_takes_the_field_from_its_owner() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1"}), "one")
    forced = apply_config(first, containers({"name": "a", "image": "2"}), "two", force=True)
    owners = {entry["manager"]: from_tree(entry["fieldsV1"]) for entry in forced["metadata"]["managedFields"]}
    image = ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")
    assert (image in owners["one"], image in owners["two"]) == (False, True)


def test_an_update_takes_the_ownership_of_changed_fields() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1"}), "one")
    new = {**containers({"name": "a", "image": "2"}), "metadata": dict(first["metadata"])}
    set_entries(new, record_update(POD, first, new, manager("editor", "Update"), NOW))
    with pytest.raises(StatusError, match='conflict with "editor" using v1'):
        apply_config(new, containers({"name": "a", "image": "1"}), "one")


def test_an_item_stays_while_another_manager_owns_a_field_of_it() -> None:
    first = apply_config(EMPTY, containers({"name": "a", "image": "1", "workingDir": "/"}), "one")
    new = {**containers({"name": "a", "image": "2", "workingDir": "/"}), "metadata": dict(first["metadata"])}
    set_entries(new, record_update(POD, first, new, manager("editor", "Update"), NOW))
    assert apply_config(new, {"spec": {}}, "one")["spec"]["containers"] == [{"name": "a", "image": "2"}]


def test_a_writer_does_not_own_fields_that_it_could_not_write() -> None:
    new: Json = {"metadata": {}, "spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}
    entries = record_update(POD, None, new, manager("c", "Update"), NOW, lambda path: path[0] != "f:status")
    assert [from_tree(each["fieldsV1"]) for each in entries] == [{("f:spec", "f:nodeName")}]


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), st.sets(st.sampled_from("abc"))), max_size=6))
def test_after_any_applies_an_entry_exists_exactly_if_a_manager_applies_it(
    applies: list[tuple[str, set[str]]],
) -> None:
    live: Json = {"metadata": {}}
    wanted: dict[str, set[str]] = {}
    for name, keys in applies:
        wanted[name] = keys
        live = apply_config(live, {"data": dict.fromkeys(keys, "x")}, name, kind="core.ConfigMap")
    assert set(live.get("data") or {}) == set().union(*wanted.values(), set())


def test_an_atomic_map_has_one_owner() -> None:
    first = apply_config(EMPTY, {"spec": {"nodeSelector": {"a": "1"}}}, "one")
    with pytest.raises(StatusError, match=r"conflict with \"one\".*\.spec\.nodeSelector"):
        apply_config(first, {"spec": {"nodeSelector": {"b": "1"}}}, "two")
