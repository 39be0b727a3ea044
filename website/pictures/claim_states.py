"""The states of a claim on a node, from the table that the node uses."""

import math
from collections import defaultdict
from typing import Final

from dradriver.node.state.claim_states import MOVES, ClaimState
from website.pictures.drawing import Box, Drawing, Point

__all__ = ["draw_claim_states"]

_PLACES: Final[dict[ClaimState, Point]] = {
    ClaimState.ABSENT: (110, 190),
    ClaimState.PREPARING: (380, 90),
    ClaimState.PREPARED: (650, 190),
    ClaimState.UNPREPARING: (380, 290),
}
_SIZE: Final = (130.0, 44.0)


def draw_claim_states() -> str:
    """Return the SVG of the states, with an arrow for each allowed change."""
    events: dict[tuple[ClaimState, ClaimState], list[str]] = defaultdict(list)
    for (before, event), after in MOVES.items():
        events[before, after].append(event.value)
    sentences = [f"{before} to {after}: {', '.join(labels)}" for (before, after), labels in events.items()]
    drawing = Drawing("States of a claim on a node", "; ".join(sentences), (760, 380))
    boxes = {state: drawing.add_box(place, _SIZE, state.value) for state, place in _PLACES.items()}
    for (before, after), labels in events.items():
        if before is after:
            _add_loop(drawing, boxes[before], " / ".join(labels))
        else:
            _add_change(
                drawing, boxes[before], boxes[after], " / ".join(labels), both=(after, before) in events
            )
    return drawing.render()


def _add_loop(drawing: Drawing, box: Box, label: str) -> None:
    (x, y), (_, height) = box.center, box.size
    outwards = -1 if y < _PLACES[ClaimState.ABSENT][1] else 1
    border, far = y + outwards * height / 2, y + outwards * (height / 2 + 24)
    drawing.add_line([(x - 30, border), (x - 30, far), (x + 30, far), (x + 30, border)])
    drawing.add_label((x, far - 8 if outwards < 0 else far + 18), label)


def _add_change(drawing: Drawing, start: Box, end: Box, label: str, *, both: bool) -> None:
    distance = math.dist(start.center, end.center)
    # The left side of the direction, so that the two directions of a pair do not cover each other.
    side_x = (end.center[1] - start.center[1]) / distance
    side_y = -(end.center[0] - start.center[0]) / distance
    shift = (side_x * 9, side_y * 9) if both else (0.0, 0.0)
    first, last = start.edge_towards(end.center, shift), end.edge_towards(start.center, shift)
    drawing.add_line([first, last])
    at = (first[0] + last[0]) / 2 + side_x * 7, (first[1] + last[1]) / 2 + side_y * 7 + (4 if side_y > 0 else 0)
    drawing.add_label(at, label, anchor="end" if side_x < 0 else "start")
