"""The parts of dradriver and what they exchange."""

from typing import Final

from website.pictures.drawing import Drawing, Point

__all__ = ["draw_parts"]

_BOXES: Final[dict[str, tuple[Point, tuple[str, ...]]]] = {
    "author": ((105, 80), ("class MyDriver", "what an author writes")),
    "node": ((350, 80), ("node", "serves the kubelet")),
    "publish": ((595, 80), ("publish", "makes slices of pools")),
    "CDI specs": ((105, 180), ("CDI specs", "for the runtime")),
    "state.db": ((350, 180), ("state.db", "prepared claims")),
    "kubelet": ((350, 300), ("kubelet", "starts pods")),
    "API server": ((595, 300), ("API server", "slices, claims, pods")),
    "allocator": ((840, 80), ("allocator, cel", "choose devices")),
    "control": ((840, 180), ("control", "schedules pods")),
    "cluster": ((840, 300), ("cluster", "all of it on a laptop")),
}
_ARROWS: Final = (
    ("author", "node", "devices, edits"),
    ("node", "state.db", ""),
    ("node", "CDI specs", ""),
    ("node", "publish", "pools"),
    ("publish", "API server", "slices"),
    ("control", "allocator", "claims"),
    ("control", "API server", "allocations"),
    ("cluster", "control", "runs"),
    ("cluster", "API server", "runs"),
    ("API server", "kubelet", "bound pods"),
)
_SIZE: Final = (150.0, 50.0)


def draw_parts() -> str:
    """Return the SVG of the parts."""
    description = "; ".join(f"{start} to {end}" + (f": {text}" if text else "") for start, end, text in _ARROWS)
    drawing = Drawing("The parts of dradriver", description, (930, 345))
    drawing.add_box((350, 120), (670, 215), "a driver's process, on each node", kind="group")
    boxes = {name: drawing.add_box(place, _SIZE, *lines) for name, (place, lines) in _BOXES.items()}
    for start, end, text in _ARROWS:
        first = boxes[start].edge_towards(boxes[end].center)
        last = boxes[end].edge_towards(boxes[start].center)
        drawing.add_line([first, last])
        x, y = (first[0] + last[0]) / 2, (first[1] + last[1]) / 2
        if text and first[0] == last[0]:
            drawing.add_label((x + 8, y + 4), text, anchor="start")
        elif text:
            drawing.add_label((x, y - 7 if first[0] < last[0] else y + 17), text)
    # Past the record, from the right side of the kubelet to the right side of the node's part.
    drawing.add_line([(425, 286), (462, 286), (462, 96), (426, 96)])
    drawing.add_label((470, 262), "gRPC", anchor="start")
    return drawing.render()
