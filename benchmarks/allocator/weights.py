"""`python -m benchmarks.allocator.weights`: compares counted work with the CPU time that it takes.

The constants in `dradriver.allocator.meter` were chosen so that the CPU time is at most the work if nothing is
cached, apart from the time to read slices. A workload whose work is mainly of one kind shows the weight of this
kind. The first round evaluates all selectors. Later rounds find their results in caches.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from time import process_time
from typing import Final

from benchmarks.report import markdown
from dradriver.allocator import Features, InUse, Inventory, Meter, Refusal, allocate
from dradriver.cel import Selector
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.search.proofs.boards import board, cards, one_of_each
from tests.unit.allocator.worlds import CLASSES, DRIVER, NODE, Json, claim, request, slice_

_ROUNDS: Final = 4
_GPUS: Final = 1024
_FEATURES: Final = Features()
_LOOP: Final = "[1, 2, 3, 4, 5].all(x, [1, 2, 3, 4, 5].exists(y, x == y))"
_NUMA: Final = f"device.attributes['{DRIVER}'].numa"


def main() -> None:
    """Print a row for each workload."""
    rows = [(name, *_measure(slices, wanted)) for name, slices, wanted in _workloads()]
    print(markdown(["workload", "first CPU ms", "least CPU ms", "work ms", "kinds"], rows))
    print(f"compiling: {_compile_nanoseconds():.0f} ns a byte")


def _workloads() -> Iterator[tuple[str, list[ResourceSlice], ResourceClaim]]:
    gpus = [slice_(f"s{n}", *(_gpu(n, k) for k in range(128)), count=8) for n in range(_GPUS // 128)]
    distinct = [{"distinctAttribute": f"{DRIVER}/uuid"}] * 16
    sizes = [size for card in range(8) for size in _thirds(Random(card))]
    yield "a small node", [slice_("a", *"abcdefgh")], claim(request())
    yield "1,024 devices", gpus, claim(request())
    yield "a selector that loops", gpus, claim(request(expression=_LOOP))
    yield "32 selectors", gpus, claim(*(request(f"r{n}", f"{_NUMA} != {n + 9}") for n in range(32)))
    yield "16 constraints", gpus, claim(*(request(f"r{n}") for n in range(8)), constraints=distinct)
    yield "a board that can't be covered", board(6, 6, {(0, 0), (5, 5)}), claim(request(count=17))
    yield "cards that are filled exactly", cards(8, 1000, sizes), one_of_each(sorted(sizes, key=hash))


def _gpu(part: int, number: int) -> Json:
    attributes = {"numa": {"int": number % 4}, "uuid": {"string": f"{part}-{number}"}}
    return {"name": f"gpu-{part}-{number}", "attributes": attributes}


def _thirds(random: Random) -> list[int]:
    first, second = random.randint(300, 400), random.randint(260, 340)
    return [first, second, 1000 - first - second]


def _measure(slices: Sequence[ResourceSlice], wanted: ResourceClaim) -> tuple[str, ...]:
    inventory, seconds, meters = Inventory.of(slices), [], []
    inventory.pools_on(NODE, _FEATURES)
    for _ in range(_ROUNDS):
        meters.append(Meter(10**9))
        began = process_time()
        with suppress(Refusal):
            allocate([wanted], inventory, CLASSES, InUse.of([]), NODE, meter=meters[-1], features=_FEATURES)
        seconds.append(process_time() - began)
    spent = sorted(meters[0].spent.items(), key=lambda each: -each[1])
    work = sum(nanoseconds for _, nanoseconds in spent) / 1e6
    kinds = ", ".join(f"{kind.name} {nanoseconds / 1e6:.2f}" for kind, nanoseconds in spent[:3])
    return f"{seconds[0] * 1000:.2f}", f"{min(seconds) * 1000:.2f}", f"{work:.2f}", kinds


def _compile_nanoseconds() -> float:
    expression = " || ".join(f"{_NUMA} == {number}" for number in range(150))
    began = process_time()
    for _ in range(_ROUNDS):
        Selector(expression)
    return (process_time() - began) * 1e9 / _ROUNDS / len(expression)


if __name__ == "__main__":
    main()
