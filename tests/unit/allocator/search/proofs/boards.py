"""Nodes on which many devices compete for few counters."""

from collections.abc import Collection, Sequence

from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import DRIVER, Json, claim, request, slice_

Field = tuple[int, int]

_DEVICES_PER_SLICE = 60


def board(rows: int, columns: int, removed: Collection[Field] = ()) -> list[ResourceSlice]:
    """Return slices with a counter for each field, and a device for each pair of adjacent fields."""
    fields = [(r, c) for r in range(rows) for c in range(columns) if (r, c) not in removed]
    sets = [
        {"name": f"row-{row}", "counters": {f"field-{c}": {"value": "1"} for r, c in fields if r == row}}
        for row in range(rows)
    ]
    devices = [
        domino(field, other)
        for field in fields
        for other in ((field[0] + 1, field[1]), (field[0], field[1] + 1))
        if other in fields
    ]
    parts = [devices[at : at + _DEVICES_PER_SLICE] for at in range(0, len(devices), _DEVICES_PER_SLICE)]
    count = len(parts) + 1
    slices = [slice_(f"devices-{n}", *part, count=count) for n, part in enumerate(parts)]
    return [*slices, slice_("counters", sharedCounters=sets, count=count)]


def domino(*fields: Field) -> Json:
    """Return a device that consumes the counters of two fields."""
    rows: dict[int, Json] = {}
    for row, column in fields:
        rows.setdefault(row, {})[f"field-{column}"] = {"value": "1"}
    consumed = [{"counterSet": f"row-{row}", "counters": counters} for row, counters in rows.items()]
    name = "-".join(f"{row}{column}" for row, column in fields)
    return {"name": f"domino-{name}", "consumesCounters": consumed}


def cards(number: int, memory: int, sizes: Sequence[int]) -> list[ResourceSlice]:
    """Return cards. Each of them has devices of all sizes, as many of a size as `sizes` contains."""
    slices = []
    for card in range(number):
        devices = [
            {
                "name": f"card-{card}-{position}",
                "attributes": {"size": {"int": size}},
                "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": str(size)}}}],
            }
            for position, size in enumerate(sorted(sizes))
        ]
        sets = [{"name": "card", "counters": {"memory": {"value": str(memory)}}}]
        pool = f"card-{card}"
        slices += [
            slice_(f"devices-{card}", *devices, pool=pool, count=2),
            slice_(f"counters-{card}", pool=pool, count=2, sharedCounters=sets),
        ]
    return slices


def one_of_each(sizes: Sequence[int]) -> ResourceClaim:
    """Return a claim with a request for a device of each size, in this order."""
    requests = [
        request(f"r{number}", f"device.attributes['{DRIVER}'].size == {size}")
        for number, size in enumerate(sizes)
    ]
    return claim(*requests)
