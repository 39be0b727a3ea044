"""Divides an overview into sections: one for each node, and one for each pool that several nodes reach."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.overview.drawing.marks import DeviceNodes
from dradriver.overview.values import Card, NodeOverview, Overview, Reach

__all__ = ["DrawnSection", "list_sections"]


@dataclass(frozen=True, slots=True)
class DrawnSection:
    """A part of a drawing.

    Attributes:
        name: the heading.
        remarks: sentences below the heading.
        cards: the cards.
        is_problem: whether the remarks report a problem.
        device_nodes: see `Reach`.
    """

    name: str
    remarks: tuple[str, ...]
    cards: tuple[Card, ...]
    is_problem: bool = False
    device_nodes: DeviceNodes | None = None


def list_sections(overview: Overview) -> Iterator[DrawnSection]:
    """Yield the sections of an overview: the nodes, then the pools that several nodes reach.

    Args:
        overview: the cluster.
    """
    problems: dict[str, list[str]] = {}
    for problem in overview.problems:
        text = f"pool {problem.driver}/{problem.pool}: {problem.problem}"
        problems.setdefault(problem.node or f"{problem.driver}/{problem.pool}", []).append(text)
    for node in overview.nodes.values():
        yield _node_section(node, problems.get(node.name, []))
    for reach in overview.reaches:
        yield _reach_section(reach, problems.get(f"{reach.driver}/{reach.pool}", []))


def _node_section(node: NodeOverview, problems: list[str]) -> DrawnSection:
    remarks = [] if node.is_ready else ["not ready or cordoned"]
    return DrawnSection(f"node {node.name}", (*remarks, *problems), node.cards, bool(remarks or problems))


def _reach_section(reach: Reach, problems: list[str]) -> DrawnSection:
    nodes = (
        "all nodes"
        if reach.is_everywhere
        else f"nodes {', '.join(reach.nodes)}"
        if reach.nodes
        else "no known node"
    )
    remark = f"reached by {nodes}"
    return DrawnSection(
        f"pool {reach.pool} of {reach.driver}",
        (remark, *problems),
        reach.cards,
        bool(problems),
        reach.device_nodes,
    )
