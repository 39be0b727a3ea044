"""The owners of a write follow from the parts of an object that differ."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cluster.apiserver.fields import apply
from dradriver.cluster.apiserver.fields.apply import Manager, record_update
from dradriver.cluster.apiserver.fields.differences import select_differences

TEXTS = st.sampled_from(["", "x", "y"])
MAPS = st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXTS, max_size=3)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("pqr")}, optional={"image": TEXTS, "args": st.lists(TEXTS)}),
    max_size=2,
    unique_by=lambda container: container["name"],
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": TEXTS}, optional={"labels": MAPS, "finalizers": st.lists(TEXTS, unique=True)}
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": CONTAINERS, "nodeSelector": MAPS, "nodeName": TEXTS}
        ),
        "status": st.fixed_dictionaries({}, optional={"phase": TEXTS, "nodeSelector": MAPS}),
    },
)


def test_equal_members_become_placeholders_and_raw_leaves_are_thawed() -> None:
    old = {"spec": {"a": [1], "p": msgspec.Raw(b'{"x": 1}')}, "gone": {"b": msgspec.Raw(b"2")}}
    new = {"spec": {"a": [1], "p": msgspec.Raw(b'{"x":2}')}, "added": 3}
    assert select_differences(old, new) == (
        {"spec": {"a": "", "p": {"x": 1}}, "gone": {"b": 2}},
        {"spec": {"a": "", "p": {"x": 2}}, "added": 3},
    )


@settings(max_examples=60)
@given(st.sampled_from(["core.Pod", None]), PODS, PODS)
def test_the_owners_are_those_of_a_comparison_of_whole_objects(name: str | None, old: Any, new: Any) -> None:
    writer, other = Manager("writer", "Update", "v1"), Manager("other", "Update", "v1")
    old["metadata"]["managedFields"] = record_update(name, None, old, other, "1")
    new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
    found = record_update(name, old, new, writer, "2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "select_differences", lambda *objects: objects)
        assert record_update(name, old, new, writer, "2") == found
