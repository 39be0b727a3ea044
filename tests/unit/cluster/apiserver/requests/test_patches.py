"""The three kinds of patches, tested as pure functions."""

import copy
from typing import Any

import msgspec
import pytest

from dradriver.cluster.apiserver.requests.patches import (
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge,
)
from dradriver.cluster.apiserver.status import StatusError


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ([1], {"a": 1}, {"a": 1}),
    ],
)
def test_merge_patch_follows_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(target, patch) == result


def test_a_merge_patch_keeps_unchanged_bytes() -> None:
    raw = msgspec.Raw(b'{"b":1.0,"a":2}')
    assert apply_merge_patch({"p": raw}, {"q": 1})["p"] is raw
    assert apply_merge_patch({"p": raw}, {"p": msgspec.Raw(b'{"a":2}')})["p"] is raw


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3], "b": {"c/d": 1}}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2], "b": {"c/d": 1}}),
        ([{"op": "replace", "path": "/b/c~1d", "value": 2}], {"a": [1, 2], "b": {"c/d": 2}}),
        ([{"op": "move", "from": "/a", "path": "/c"}], {"c": [1, 2], "b": {"c/d": 1}}),
        ([{"op": "copy", "from": "/a/1", "path": "/a/0"}], {"a": [2, 1, 2], "b": {"c/d": 1}}),
    ],
)
def test_json_patch_follows_rfc_6902(operations: list[Any], result: Any) -> None:
    target: Any = {"a": [1, 2], "b": {"c/d": 1}}
    assert apply_json_patch(target, operations) == result
    assert target == {"a": [1, 2], "b": {"c/d": 1}}


@pytest.mark.parametrize("operation", [
    {"op": "remove", "path": "/none"}, {"op": "replace", "path": "/a/7", "value": 1},
    {"op": "jump", "path": "/a"},
    {"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/a/x", "value": 1},
])  # fmt: skip
def test_an_operation_that_cannot_be_applied_is_unprocessable(operation: Any) -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({"a": [1]}, [operation])
    assert refused.value.code == 422


def test_a_json_patch_shares_what_it_does_not_change_and_leaves_the_object_as_it_was() -> None:
    target: Any = {"spec": {"list": [{"a": 1}, {"b": 2}]}, "status": {"c": [3]}}
    before = copy.deepcopy(target)
    operations = [
        {"op": "add", "path": "/spec/list/0/a", "value": 5},
        {"op": "move", "from": "/spec/list/1", "path": "/spec/list/0"},
        {"op": "copy", "from": "/status/c", "path": "/spec/copied"},
        {"op": "add", "path": "/spec/copied/-", "value": 6},
    ]
    patched: Any = apply_json_patch(target, operations)
    assert patched["spec"] == {"list": [{"b": 2}, {"a": 5}], "copied": [3, 6]}
    assert patched["status"] is target["status"]
    assert target == before


def strategic(target: Any, patch: Any) -> Any:
    return apply_strategic_merge("core.Pod", {"spec": target}, {"spec": patch})["spec"]


def test_strategic_merge_merges_keyed_lists_and_adds_new_items() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    patch = {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}
    merged = strategic(target, patch)["containers"]
    assert merged == [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]


def test_strategic_merge_replaces_atomic_lists() -> None:
    assert strategic({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}) == {
        "tolerations": [{"key": "b"}]
    }


def test_strategic_directives_delete_and_replace() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}
    assert strategic(target, {"containers": [{"$patch": "delete", "name": "a"}]})["containers"] == [
        {"name": "b"}
    ]
    assert strategic(target, {"nodeSelector": {"$patch": "replace", "y": "2"}})["nodeSelector"] == {"y": "2"}
    ordered = {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "b", "image": "2"}]}
    assert strategic(target, ordered)["containers"][1] == {"name": "b", "image": "2"}


def test_scalars_of_a_merged_list_are_added_and_removed() -> None:
    target: Any = {"metadata": {"finalizers": ["a", "b"]}}
    added = apply_strategic_merge("core.Pod", target, {"metadata": {"finalizers": ["b", "c"]}})
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = apply_strategic_merge(
        "core.Pod", target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    )
    assert removed["metadata"]["finalizers"] == ["b"]
