"""Claims that try to cost the allocator more than their budget.

`python -m tests.properties.allocator.hostile_claims FIRST COUNT` places each claim, and prints the CPU time and
the metered work of the most expensive ones.
"""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest.mock import patch

from msgspec.structs import replace

from dradriver.allocator import ORDERS, AllocationNode, Features, Meter, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import ResourceClaim
from tests.unit.allocator.search.proofs.boards import board, cards
from tests.unit.allocator.worlds import CLASSES, DRIVER, Json, a100, claim, slice_

LARGEST_CLAIM: Final = 256 * 1024
_CLAIMS_PER_PLACER: Final = 50

_ATTRIBUTES: Final = f"device.attributes['{DRIVER}']"
_PARTS: Final = (
    f"{_ATTRIBUTES}.model.matches('(a|b|c|m){{1,400}}[0-9]*$')",
    f"{_ATTRIBUTES}.model.matches('^(m*)*(m*)*x$')",
    f"{_ATTRIBUTES}.?numa.orValue(7) != 5",
    f"{_ATTRIBUTES}.?size.orValue(250) >= 0",
    f"{_ATTRIBUTES}.numa in [0, 1, 2, 3]",
    "!('profile' in device.attributes['gpu.nvidia.com']) || device.driver != ''",
    "[1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7, 8].all(b, [1, 2, 3].all(c, a * b * c > 0)))",
    "[3, 1, 2].map(x, x * 2).sort() == [2, 4, 6]",
    "'" + "ab" * 400 + "'.contains('ba')",
    "device.driver == 'gpu.example.com'",
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "'a' + 'b' == 'ab'",
)
_PROFILES: Final = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def new_placer(seed: int) -> Placer:
    """Return a placer with differing nodes: GPUs with attributes, partitions, a board and cards."""
    chance = Random(seed)
    placer = Placer(order=ORDERS[chance.choice(sorted(ORDERS))], features=Features(list_type_attributes=True))
    placer.put_class(CLASSES["gpu"])
    sizes = [chance.randint(250, 500) for _ in range(9)]
    hardware = [a100(8), board(6, 6, {(0, 0), (5, 5)}), cards(3, 1000, sizes)]
    hardware += [[slice_("gpus", *map(_gpu, range(count)))] for count in (8, 32, 100, 128)]
    for number, slices in enumerate(hardware):
        placer.put_node(AllocationNode(f"node-{number}"))
        for each in slices:
            metadata = replace(each.metadata, name=f"{number}-{each.metadata.name}")
            pool = replace(each.spec.pool, name=f"node-{number}-{each.spec.pool.name}")
            spec = replace(each.spec, pool=pool, node_name=f"node-{number}")
            placer.put_slice(replace(each, metadata=metadata, spec=spec))
    placer.place([])  # the first call reads the slices
    return placer


def _gpu(number: int) -> Json:
    lists = {"zones": {"ints": [number % 3, number % 5]}} if number % 2 else {}
    texts = {"model": {"string": f"m{number % 3}"}, "uuid": {"string": f"u{number}"}}
    return {"name": f"gpu-{number}", "attributes": {"numa": {"int": number % 4}, **texts, **lists}}


def hostile_claim(seed: int) -> ResourceClaim:
    """Return a claim of at most 256 KiB. Equal seeds make equal claims."""
    chance = Random(seed)
    large = chance.random() < 0.5
    names = [f"r{number:02}" for number in range(chance.choice((1, 3, 10, 24, 32)))]
    parts = chance.sample(_PARTS, chance.randint(1, 4))
    constraints = [_constraint(names, chance) for _ in range(chance.choice((0, 0, 1, 4, 32)))]
    while True:
        wanted = claim(*(_request(name, parts, chance, large=large) for name in names), constraints=constraints)
        if len(encode(wanted.spec)) <= LARGEST_CLAIM:
            return wanted
        names.pop()
        constraints = []


def _request(name: str, parts: list[str], chance: Random, *, large: bool) -> Json:
    if chance.random() < 0.7:
        return {"name": name, "exactly": _subrequest(parts, chance, large=large)}
    alternatives = [_subrequest(parts, chance, large=large) for _ in range(chance.randint(2, 8))]
    return {
        "name": name,
        "firstAvailable": [{"name": f"s{number}", **each} for number, each in enumerate(alternatives)],
    }


def _subrequest(parts: list[str], chance: Random, *, large: bool) -> Json:
    kind = chance.random()
    if kind < 0.3:
        profile = chance.choice(_PROFILES)
        expressions = [f"device.attributes['gpu.nvidia.com'].?profile.orValue('') == '{profile}'"]
    elif kind < 0.5:
        size = f"{_ATTRIBUTES}.?size.orValue(0) == {chance.randint(250, 500)}"
        expressions = [chance.choice((size, "true"))]
    else:
        expressions = [
            " && ".join(chance.choices(parts, k=chance.randint(1, 60 if large else 3)))
            for _ in range(chance.choice((1, 1, 2, 8)))
        ]
    shortened = [each if len(each) < 10_000 else each[: each.rfind(" && ", 0, 10_000)] for each in expressions]
    selectors = [{"cel": {"expression": expression}} for expression in shortened]
    counts: list[Json] = [{"count": count} for count in (1, 1, 1, 2, 17)]
    amount = {"allocationMode": "All"} if chance.random() < 0.05 else chance.choice(counts)
    return {"deviceClassName": "gpu", "selectors": selectors, **amount}


def _constraint(names: list[str], chance: Random) -> Json:
    kind = chance.choice(("matchAttribute", "distinctAttribute"))
    name = chance.choice(("numa", "model", "uuid", "zones", "size"))
    covered = chance.sample(names, chance.randint(1, len(names)))
    return {kind: f"{DRIVER}/{name}", "requests": covered}


@contextmanager
def record_meters() -> Iterator[list[Meter]]:
    """Return the meters that are created, in their order."""
    meters: list[Meter] = []
    create = Meter.__init__

    def record(meter: Meter, *args: int, **named: int) -> None:
        meters.append(meter)
        create(meter, *args, **named)

    with patch.object(Meter, "__init__", record):
        yield meters


def place(placer: Placer, wanted: ResourceClaim) -> tuple[str, int, float]:
    """Return the result of placing a claim, the work and the CPU time, both in microseconds."""
    with record_meters() as meters:
        began = time.process_time()
        try:
            result = placer.place([wanted]).node
        except (Refusal, NoNodeFits) as refusal:
            result = refusal.kind
        seconds = time.process_time() - began
    return result, sum(sum(meter.spent.values()) for meter in meters) // 1000, seconds * 1e6


def main() -> None:
    """Print the claims that took the most CPU time."""
    first, count = (int(value) for value in sys.argv[1:3])
    placed = []
    for start in range(first, first + count, _CLAIMS_PER_PLACER):
        placer = new_placer(start)
        gc.collect()
        gc.freeze()  # a collection of all objects would count as time of a claim
        seeds = range(start, min(start + _CLAIMS_PER_PLACER, first + count))
        placed += [(place(placer, hostile_claim(seed)), seed) for seed in seeds]
    placed.sort(key=lambda each: -each[0][2])
    print(f"{'claim':>8} {'CPU ms':>8} {'work ms':>8} result")
    for (result, work, cpu), seed in placed[:10]:
        print(f"{seed:8} {cpu / 1000:8.1f} {work / 1000:8.1f} {result}")
    print(f"{sum(result == 'undecided' for (result, _, _), _ in placed)} of {count} are undecided")


if __name__ == "__main__":
    main()
