"""Computes the maximum number of devices if each counter serves only one of them.

The counters are the vertices of a graph, and each device is an edge between two of its counters. Chosen devices
have no counter in common, so they are a matching. The bound is the maximum of a fractional matching, rounded
down for each connected part of the graph. It is exact for graphs without odd cycles: dominoes on a chessboard
from which two fields of one color are removed can't cover the board.
"""

from collections.abc import Iterable, Sequence

__all__ = ["bound_matching"]


def bound_matching(edges: Iterable[tuple[int, int]]) -> int:
    """Return an upper bound on the number of edges without a common vertex."""
    neighbors: dict[int, list[int]] = {}
    for one, other in edges:
        neighbors.setdefault(one, []).append(other)
        neighbors.setdefault(other, []).append(one)
    return sum(_match_twice(part, neighbors) // 2 for part in _list_parts(neighbors))


def _list_parts(neighbors: dict[int, list[int]]) -> list[list[int]]:
    """Return the vertices of each connected part."""
    parts, seen = [], set[int]()
    for start in neighbors:
        if start in seen:
            continue
        seen.add(start)
        part = [start]
        for vertex in part:  # grows during the loop
            new = [other for other in dict.fromkeys(neighbors[vertex]) if other not in seen]
            seen.update(new)
            part += new
        parts.append(part)
    return parts


def _match_twice(part: Sequence[int], neighbors: dict[int, list[int]]) -> int:
    """Return the size of a maximum matching between the vertices and a copy of them.

    It is twice the maximum of a fractional matching.
    """
    vertex_of: dict[int, int] = {}
    copy_of: dict[int, int] = {}
    for start in part:
        came_from: dict[int, int] = {}
        copy = _find_free_copy(start, neighbors, vertex_of, came_from)
        while copy is not None:
            vertex = came_from[copy]
            following = copy_of.get(vertex)
            vertex_of[copy], copy_of[vertex] = vertex, copy
            copy = following
    return len(copy_of)


def _find_free_copy(
    start: int, neighbors: dict[int, list[int]], vertex_of: dict[int, int], came_from: dict[int, int]
) -> int | None:
    """Return a copy without a vertex that an alternating path reaches from `start`, else None."""
    queue = [start]
    for vertex in queue:  # grows during the loop
        for copy in neighbors[vertex]:
            if copy in came_from:
                continue
            came_from[copy] = vertex
            if copy not in vertex_of:
                return copy
            queue.append(vertex_of[copy])
    return None
