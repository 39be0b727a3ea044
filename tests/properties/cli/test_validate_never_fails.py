"""For any content of a file, commands answer with findings or a `DraError`, never a traceback."""

import json
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.allocator import ORDERED, Features, Inventory
from dradriver.cli.attempt import AttemptSettings
from dradriver.cli.explanation.answers import Question, explain_claim, explain_pod
from dradriver.cli.files import read_files
from dradriver.cli.simulation.run import Simulation
from dradriver.cli.validation.command import findings
from dradriver.cli.world import list_needs, read_world
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.errors import DraError
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.overview import counter_set_uses, draw_counter_sets
from dradriver.testing.builders import allocated, claim, device_class, pod, slice_

SETTINGS = AttemptSettings(ORDERED, Features(), 1000)
OBJECTS: list[Any] = [
    builtins(slice_(Device("a", {"x": 1}, {"m": "1Gi"}, [CounterConsumption("s", {"c": 1})]))),
    builtins(slice_(counter_sets=[CounterSet("s", {"c": 1})])),
    builtins(device_class()),
    builtins(allocated(claim(), "a")),
    builtins(pod("claim-1")),
    {"apiVersion": "v1", "kind": "List", "items": [builtins(claim())]},
    {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": {"name": "old"},
        "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "a", "basic": {"attributes": {}}}]},
    },
    {"cdiVersion": "0.3.0", "kind": "v.io/cc", "devices": [{"name": "d", "containerEdits": {"env": ["A=b"]}}]},
]
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in paths_of(value[key], (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Draw a valid object with a value replaced, removed or added."""
    value = deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from([place for place in paths_of(value) if place]))
        inside = value
        for key in parents:
            inside = inside[key]
        inside[last] = draw(json_values)
    return value


@settings(max_examples=150)
@given(objects=st.lists(damaged() | st.sampled_from(OBJECTS), min_size=1, max_size=4), as_json=st.booleans())
def test_validation_of_a_damaged_object_never_fails(objects: list[Any], as_json: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "objects"
        texts = [json.dumps(each, indent=None if as_json else 1) for each in objects]
        path.write_text(texts[0] if as_json else "\n---\n".join(texts))
        reading = read_files([str(path)])
    for finding in findings(reading):
        assert str(finding)
    with suppress(DraError):
        world = read_world(reading.documents)
        simulation = Simulation(world, SETTINGS)
        for need in list_needs(world):
            simulation.place(need)
        question = Question(world, SETTINGS, BindingDeadline())
        for ref in world.pods:
            assert list(explain_pod(question, ref).lines())
        for ref in world.claims:
            assert explain_claim(question, ref).document()
        list(draw_counter_sets(counter_set_uses(Inventory.of(world.slices), simulation.claims.values())))


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "just words",
        "? [a, b]\n: 1",
        "&a [*a]",
        "a: &x {b: *x}",
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]" for a, b in pairwise("abcdefghi")),
        "\x00",
        "%YAML 9",
        "[" * 5000,
        '{"a":' * 5000,
        "{",
    ],
)
def test_a_file_without_an_object_is_one_finding(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    found = list(findings(read_files([str(path)])))
    assert [finding.severity for finding in found] == ["error"]
