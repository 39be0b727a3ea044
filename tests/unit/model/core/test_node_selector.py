"""Node selectors match like those of kube-scheduler."""

import pytest

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

LABELS = {"zone": "a", "gpus": "8", "text": "eight"}


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (NodeSelectorRequirement("zone", "In", ["a", "b"]), True),
        (NodeSelectorRequirement("zone", "In", ["b"]), False),
        (NodeSelectorRequirement("missing", "In", [""]), False),
        (NodeSelectorRequirement("zone", "NotIn", ["b"]), True),
        (NodeSelectorRequirement("missing", "NotIn", ["b"]), True),
        (NodeSelectorRequirement("zone", "Exists"), True),
        (NodeSelectorRequirement("missing", "DoesNotExist"), True),
        (NodeSelectorRequirement("gpus", "Gt", ["7"]), True),
        (NodeSelectorRequirement("gpus", "Lt", ["8"]), False),
        (NodeSelectorRequirement("text", "Gt", ["7"]), False),
        (NodeSelectorRequirement("missing", "Lt", ["7"]), False),
    ],
)
def test_a_requirement_compares_a_label(requirement: NodeSelectorRequirement, matches: bool) -> None:
    assert requirement.matches(LABELS) is matches


def test_one_term_with_all_its_requirements_must_match() -> None:
    zone = NodeSelectorRequirement("zone", "In", ["a"])
    other = NodeSelectorRequirement("zone", "In", ["b"])
    assert not NodeSelector([NodeSelectorTerm(match_expressions=[zone, other])]).matches("n", LABELS)
    terms = [NodeSelectorTerm(match_expressions=[other]), NodeSelectorTerm(match_expressions=[zone])]
    assert NodeSelector(terms).matches("n", LABELS)


def test_an_empty_term_matches_no_node() -> None:
    assert not NodeSelector([NodeSelectorTerm()]).matches("n", LABELS)


def test_a_node_is_selected_by_its_name() -> None:
    assert NodeSelector.for_node("n").matches("n", {})
    assert not NodeSelector.for_node("n").matches("m", {})
