"""The tables of docs/scheduler-features.md have exactly the gates and fields that the code knows."""

from pathlib import Path
from typing import Final

import pytest

from dradriver.allocator import Features
from dradriver.cli.attempt import AttemptSettings
from dradriver.cluster.apiserver.kinds.gates import DEFAULTS
from dradriver.control.runtime.gated_fields import GATED_FIELDS

PAGE: Final = (Path(__file__).parents[4] / "docs/scheduler-features.md").read_text()
ROWS: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line[:3] == "| `"
]
SETTINGS: Final = {
    cells[0]: cells[1].strip("`")
    for line in PAGE.splitlines()
    if line[:4] == "| 1." and (cells := [cell.strip() for cell in line.split("|")[1:-1]])
}
VERSIONS: Final = 4
STATES: Final = {"–", "alpha, off", "beta, off", "beta, on", "GA, on", "GA, locked on"}
NOT_IN_THE_EMBEDDED_SERVER: Final = {"DRASchedulerFilterTimeout", "DRAWorkloadResourceClaims"}


def gates() -> dict[str, list[str]]:
    """Return the states of each gate by version."""
    return {row[0].strip("`"): row[1 : 1 + VERSIONS] for row in ROWS if len(row) == VERSIONS + 2}


def test_each_field_that_is_checked_has_a_row_and_each_row_a_field() -> None:
    rows = {(row[0].strip("`"), row[1].strip("`")) for row in ROWS if len(row) != VERSIONS + 2}
    assert rows == {(field.path, field.gate) for field in GATED_FIELDS}


def test_each_gate_of_the_allocator_and_of_the_fields_has_a_row() -> None:
    known = {Features().gate(name) for name in Features.__dataclass_fields__}
    assert known | {field.gate for field in GATED_FIELDS} <= gates().keys()


def test_the_defaults_of_1_37_are_those_of_the_embedded_api_server() -> None:
    newest = {gate: states[-1].endswith("on") for gate, states in gates().items()}
    for gate in NOT_IN_THE_EMBEDDED_SERVER:
        del newest[gate]
    assert newest == DEFAULTS


def test_a_state_is_one_of_kubernetes_and_no_gate_returns_to_an_earlier_stage() -> None:
    stages = ["–", "alpha", "beta", "GA"]
    for states in gates().values():
        assert set(states) <= STATES
        order = [stages.index(state.partition(",")[0]) for state in states]
        assert order == sorted(order)


def test_the_message_on_the_page_is_that_of_the_code() -> None:
    field = next(field for field in GATED_FIELDS if field.path.endswith("bindingConditions"))
    problem = f"the API server does not store the field: the feature gate {field.gate} is off"
    assert f"claim default/gpu: {field.path}: {problem}\n" in PAGE


@pytest.mark.parametrize(("column", "version"), list(enumerate(["1.34", "1.35", "1.36", "1.37"])))
def test_the_settings_of_a_version_are_the_gates_that_it_has_off_and_1_37_has_on(
    column: int, version: str
) -> None:
    features = Features()
    on = {features.gate(name) for name in Features.__dataclass_fields__ if getattr(features, name) is True}
    off = sorted(gate for gate, states in gates().items() if gate in on and not states[column].endswith("on"))
    expected = ",".join(f"{gate}=false" for gate in off)
    assert SETTINGS[version] == (expected or "none")
    found = AttemptSettings.of("ordered", expected, 250).features
    assert {found.gate(name) for name in Features.__dataclass_fields__ if getattr(found, name)} == on - {*off}
