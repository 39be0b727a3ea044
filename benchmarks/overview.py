"""`python -m benchmarks.overview`: the overview of a large cluster, which `top` and the dashboard draw.

Each node has A100 GPUs with every MIG placement, as the SDK publishes them. Half of the cards have a partition
in use. The first load computes all cards. Then a claim gets a partition, again and again on other nodes.
"""

import argparse
import resource
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from time import perf_counter, process_time
from typing import Final

from benchmarks.allocator.workloads.devices import DRIVER, Template, mig_node, partition_name
from benchmarks.report import markdown, percentile
from dradriver.aio.bulk_load import bulk_load
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slice_reader import SliceReader
from dradriver.overview import OverviewTracker
from dradriver.overview.drawing.svg import draw_card
from dradriver.testing import builders

_GPUS: Final = 8
_PROFILE: Final = "3g.20gb"
_UPDATES: Final = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overview", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000], help="numbers of nodes")
    rows = [list(_measure(nodes)) for nodes in parser.parse_args(arguments).nodes]
    head = (
        *("nodes", "cards", "devices", "load, s", "load CPU, s", "update p50, ms", "update p99, ms"),
        *("update CPU, ms", "draw a card, ms", "memory, MiB"),
    )
    print(markdown(head, rows))
    return 0


def _measure(nodes: int) -> Iterator[str]:
    template, tracker = Template(mig_node(_GPUS)), OverviewTracker()
    with bulk_load():
        names = [f"node-{number:04}" for number in range(nodes)]
        reader = SliceReader()
        slices = [reader.read(text) for name in names for text in template.fill(name)]
        claims = [_claim(name, gpu, 0) for name in names for gpu in range(0, _GPUS, 2)]
        began, began_cpu = perf_counter(), process_time()
        for source in slices:
            tracker.apply_slice(None, source)
        for held in claims:
            tracker.apply_claim(None, held)
        tracker.update(_now())
        seconds, cpu_seconds = perf_counter() - began, process_time() - began_cpu
    milliseconds, update_cpu = _measure_updates(tracker, names)
    cards = [card for node in tracker.overview.nodes.values() for card in node.cards]
    began = perf_counter()
    for card in cards[:_UPDATES]:
        draw_card(card)
    drawn = 1e3 * (perf_counter() - began) / len(cards[:_UPDATES])
    yield from (f"{nodes:,}", f"{len(cards):,}", f"{sum(card.devices for card in cards):,}")
    yield from (f"{seconds:.3g}", f"{cpu_seconds:.3g}")
    yield from (f"{percentile(milliseconds, percent):.2g}" for percent in (50, 99))
    yield f"{update_cpu:.2g}"
    yield f"{drawn:.2g}"
    yield f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"


def _measure_updates(tracker: OverviewTracker, names: Sequence[str]) -> tuple[list[float], float]:
    """Return the milliseconds of each update after one claim has changed, and the mean of their CPU time."""
    milliseconds, cpu_seconds = [], 0.0
    for number in range(_UPDATES):
        held = _claim(names[number * 7 % len(names)], 1 + number % 4 * 2, number)
        began, began_cpu = perf_counter(), process_time()
        tracker.apply_claim(None, held)
        update = tracker.update(_now())
        _ = tracker.overview
        cpu_seconds += process_time() - began_cpu
        milliseconds.append(1e3 * (perf_counter() - began))
        if len(update.nodes) != 1:
            raise AssertionError(f"one claim has changed {len(update.nodes)} nodes")
        tracker.apply_claim(held, None)
        tracker.update(_now())
    return milliseconds, 1e3 * cpu_seconds / _UPDATES


def _claim(node: str, gpu: int, number: int) -> ResourceClaim:
    device = partition_name(gpu, _PROFILE, 4 if number else 0)
    return builders.allocated(
        builders.claim(name=f"claim-{node}-{gpu}-{number}"), device, driver=DRIVER, node_name=node
    )


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())
