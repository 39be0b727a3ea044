"""`python -m benchmarks.dashboard`: the dashboard of a large cluster in a real Chromium.

Each node has A100 GPUs with every MIG placement. The first figure is the time from the request of the page
until every node is in the page and the screen is drawn. Then a claim gets a partition of a node on the screen,
again and again: the second figure is the time until the page has drawn the change. Chromium is fetched from
Debian.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.allocator.workloads.devices import DRIVER, Template, mig_node, partition_name
from benchmarks.report import markdown, percentile
from dradriver.aio.bulk_load import bulk_load
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.overview import OverviewTracker
from dradriver.testing import builders
from tests.interop.dashboard.browser import Page, open_browser
from tests.interop.dashboard.chromium import fetch_chromium
from tests.unit.monitor.still_overview import StillOverview, served

_GPUS: Final = 8
_PROFILE: Final = "3g.20gb"
_UPDATES: Final = 50
_FRAME: Final = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
_DRAWN: Final = f"performance.getEntriesByName('drawn').length > 0 && {_FRAME}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000], help="numbers of nodes")
    rows = [asyncio.run(_measure(nodes)) for nodes in parser.parse_args(arguments).nodes]
    print(markdown(("nodes", "cards", "drawn, s", "update p50, ms", "update p99, ms", "page heap, MiB"), rows))
    return 0


async def _measure(nodes: int) -> tuple[str, ...]:
    tracker, names = _load(nodes)
    live = StillOverview(tracker.overview)
    with tempfile.TemporaryDirectory() as home:
        async with open_browser(fetch_chromium(), Path(home)) as page, served(live) as url:
            await page.look_as(1440, 900, "light")
            began = perf_counter()
            await page.open(url)
            await page.wait_for(_DRAWN)
            seconds = perf_counter() - began
            milliseconds = [await _update(page, live, tracker, names, number) for number in range(_UPDATES)]
            heap = await page.evaluate("performance.memory.usedJSHeapSize / 1048576")
    updates = (f"{percentile(milliseconds, percent):.3g}" for percent in (50, 99))
    return f"{nodes:,}", f"{nodes * _GPUS:,}", f"{seconds:.3g}", *updates, f"{heap:.0f}"


def _load(nodes: int) -> tuple[OverviewTracker, list[str]]:
    template, tracker = Template(mig_node(_GPUS)), OverviewTracker()
    names = [f"node-{number:04}" for number in range(nodes)]
    with bulk_load():
        for name in names:
            for text in template.fill(name):
                tracker.apply_slice(None, decode(ResourceSlice, text))
            for gpu in range(0, _GPUS, 2):
                tracker.apply_claim(None, _claim(name, gpu, 0))
        tracker.update(datetime.now(UTC))
    return tracker, names


async def _update(
    page: Page, live: StillOverview, tracker: OverviewTracker, names: Sequence[str], number: int
) -> float:
    """Return the milliseconds from a change of a claim until the page has drawn it."""
    name = f"claim-of-update-{number}"
    held = _claim(names[0], 1, number + 1, name)
    marks = await page.evaluate("performance.getEntriesByName('updated').length")
    began = perf_counter()
    tracker.apply_claim(None, held)
    update = tracker.update(datetime.now(UTC))
    live.change(tracker.overview, update)
    shown = f"document.querySelector('.row').innerHTML.includes('{name}')"
    await page.wait_for(f"performance.getEntriesByName('updated').length > {marks} && {shown} && {_FRAME}")
    elapsed = 1e3 * (perf_counter() - began)
    tracker.apply_claim(held, None)
    live.change(tracker.overview, tracker.update(datetime.now(UTC)))
    return elapsed


def _claim(node: str, gpu: int, number: int, name: str = "") -> ResourceClaim:
    device = partition_name(gpu, _PROFILE, 4 if number else 0)
    return builders.allocated(
        builders.claim(name=name or f"claim-{node}-{gpu}"), device, driver=DRIVER, node_name=node
    )


if __name__ == "__main__":
    sys.exit(main())
