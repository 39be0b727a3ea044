"""Node labels find the nodes that selectors match, also after nodes have changed."""

import pytest

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.overview.node_labels import NodeLabels

NODES = {"a": {"zone": "1", "gpu": "yes"}, "b": {"zone": "2"}, "c": {"zone": "2", "gpu": "no"}}


def selector(*requirements: NodeSelectorRequirement) -> NodeSelector:
    return NodeSelector([NodeSelectorTerm(match_expressions=requirements)])


SELECTORS = (
    selector(NodeSelectorRequirement("zone", "In", ("2", "3"))),
    selector(NodeSelectorRequirement("gpu", "Exists")),
    selector(NodeSelectorRequirement("gpu", "DoesNotExist"), NodeSelectorRequirement("zone", "In", ("1", "2"))),
    NodeSelector.for_node("b"),
    NodeSelector(()),
)


@pytest.mark.parametrize("wanted", SELECTORS)
def test_the_index_agrees_with_the_selector(wanted: NodeSelector) -> None:
    index, nodes = NodeLabels(), dict(NODES)
    changes = [*nodes.items(), ("a", {"zone": "2"}), ("b", None), ("b", {"gpu": "yes"}), ("d", {"zone": "3"})]
    nodes = {}
    for name, labels in changes:
        if labels is None:
            index.remove(name)
            del nodes[name]
        else:
            index.put(name, labels)
            nodes[name] = labels
        matching = {each for each, its in nodes.items() if wanted.matches(each, its)}
        assert index.select(wanted) == matching


def test_equal_labels_are_no_change() -> None:
    index = NodeLabels()
    assert index.put("a", {"zone": "1"})
    assert not index.put("a", {"zone": "1"})
    assert index.put("a", {"zone": "2"})
