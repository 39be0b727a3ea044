"""One node or one reach in detail: all lanes of its cards, who holds devices, and what still fits."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from dradriver.cli.top.bars import bar_width, draw_lane, holder_style, mark_devices
from dradriver.cli.top.items import ItemKey
from dradriver.cli.top.lists import change_lines, waiting_lines
from dradriver.cli.top.spans import Line, Span, flow, sanitize, wrapped
from dradriver.overview.values import Card, CardDevice, NodeOverview, Overview, Reach

__all__ = ["detail_lines"]

_MAX_BAR: Final = 64
_MIN_BAR: Final = 8
_MAX_NODES: Final = 24


def detail_lines(overview: Overview, key: ItemKey, width: int, now: datetime) -> Iterator[Line]:
    """Yield the lines of the detail of an item.

    Args:
        overview: the overview.
        key: the item.
        width: width of the lines in characters.
        now: the present time.
    """
    found: NodeOverview | Reach | None
    if key.kind == "node":
        found = overview.nodes.get(key.name)
    else:
        found = next((each for each in overview.reaches if f"{each.driver}/{each.pool}" == key.name), None)
    if found is None:
        yield from wrapped(f"{key.kind} {key.name} is gone", width, "problem")
        return
    yield from _node_head(found, width) if isinstance(found, NodeOverview) else _reach_head(found, width)
    for problem in overview.problems:
        if key.name in {problem.node, f"{problem.driver}/{problem.pool}"}:
            text = f"! pool {problem.driver}/{problem.pool}: {problem.problem}"
            yield from wrapped(text, width, "problem", hanging=2)
    for card in found.cards:
        yield ()
        yield from _card_lines(card, width, found.device_nodes if isinstance(found, Reach) else {})
    if isinstance(found, NodeOverview):
        yield from _about_node(overview, found, width, now)


def _node_head(node: NodeOverview, width: int) -> Iterator[Line]:
    yield from wrapped(f"node {node.name}", width, "title")
    if not node.is_ready:
        yield (Span("! not ready or cordoned", "problem"),)
    for reach_note in () if node.cards else ("no devices that only this node reaches",):
        yield from wrapped(reach_note, width, "dim")


def _reach_head(reach: Reach, width: int) -> Iterator[Line]:
    yield from wrapped(f"pool {reach.driver}/{reach.pool}", width, "title")
    names = ", ".join(reach.nodes[:_MAX_NODES])
    more = len(reach.nodes) - _MAX_NODES
    every = "all nodes" if reach.is_everywhere else f"{len(reach.nodes)} nodes"
    listed = "" if reach.is_everywhere else f": {names}{f' and {more} more' if more > 0 else ''}"
    nobody = not reach.is_everywhere and not reach.nodes
    yield from wrapped("reached by no node" if nobody else f"reached by {every}{listed}", width)


def _about_node(overview: Overview, node: NodeOverview, width: int, now: datetime) -> Iterator[Line]:
    reaches = [each for each in overview.reaches if each.is_everywhere or node.name in each.nodes]
    if reaches:
        yield ()
        yield (Span("ALSO REACHED", "title"),)
        for reach in reaches:
            yield from wrapped(f"pool {reach.driver}/{reach.pool}", width, indent=2)
    waiting = [each for each in overview.waiting if each.node == node.name]
    if waiting:
        yield ()
        yield (Span("WAITING ON THIS NODE", "title"),)
        for each in waiting:
            yield from waiting_lines(each, width, now)
    changes = [each for each in overview.changes if each.node == node.name]
    if changes:
        yield ()
        yield (Span("CHANGES", "title"),)
        for change in changes:
            yield from change_lines(change, width)


def _card_lines(card: Card, width: int, device_nodes: Mapping[str, tuple[str, ...]]) -> Iterator[Line]:
    product = f"  {card.product}" if card.product else ""
    place = card.pool if card.name == card.pool else f"{card.pool}, {card.name}"
    yield from wrapped(f"{card.driver}/{place}{product}", width, "title")
    marks = mark_devices(card)
    names = max((len(lane.name) for lane in card.lanes), default=0)
    amounts = [f"{lane.used} of {lane.total}" for lane in card.lanes]
    room = width - 2 - names - 4 - 2 - max(map(len, amounts), default=0)
    longest = max(_MIN_BAR, min(_MAX_BAR, room))
    # Lanes without cells are as long as the shortest lane with cells, so that their ends can be compared.
    common = min((bar_width(lane, longest) for lane in card.lanes), default=longest)
    for lane, amount in zip(card.lanes, amounts, strict=True):
        bar = bar_width(lane, longest) if lane.cells else common
        yield (
            Span(f"  {sanitize(lane.name):{names}}  ", "dim"),
            Span("[", "dim"),
            *draw_lane(card, lane, marks, bar),
            Span("]", "dim"),
            Span(" " * (longest - bar)),
            Span(f"  {amount}"),
        )
    ordered = [*marks, *(at for at in range(len(card.listed)) if at not in marks)]
    for at in ordered:
        device = card.listed[at]
        yield from _device_lines(device, marks.get(at, "-"), width, device_nodes.get(device.name, ()))
    yield from wrapped(_fits(card), width, indent=2)


def _device_lines(device: CardDevice, mark: str, width: int, nodes: tuple[str, ...]) -> Iterator[Line]:
    """Yield the lines of a device. Each fact is a piece that is not broken."""
    pieces: list[Line] = [(Span(sanitize(device.name)),)]
    pieces += [(Span(f"claim {claim}"),) for claim in device.claims]
    pieces += [(Span(f"pod {pod}"),) for pod in device.pods]
    if not device.claims:
        pieces.append((Span("not in use", "dim"),))
    if device.health:
        pieces.append((Span(device.health, "problem" if device.health == "unhealthy" else "dim"),))
    pieces += [(Span(f"! tainted {sanitize(taint)}", "problem"),) for taint in device.taints]
    if nodes:
        pieces.append((Span(f"reached by {', '.join(nodes[:4])}{' ...' if len(nodes) > 4 else ''}", "dim"),))
    yield from flow(pieces, width, (Span(f"  {mark}", holder_style(device)), Span("  ")), 7)


def _fits(card: Card) -> str:
    names = ", ".join(card.fitting[:8])
    more = f" and {len(card.fitting) - 8} more" if len(card.fitting) > 8 else ""
    return f"{len(card.fitting)} of {card.devices} devices still fit{f': {names}{more}' if names else ''}"
