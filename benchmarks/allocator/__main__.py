"""`python -m benchmarks.allocator`: places the pods of every workload, and prints figures and their targets."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Final

from benchmarks.allocator import component_churn
from benchmarks.allocator.churn import POLICIES, SEEDS, TARGETS, refused_percent
from benchmarks.allocator.mixes import MIXES
from benchmarks.allocator.placing import Figures
from benchmarks.allocator.programs import Programs
from benchmarks.allocator.refusals import REFUSALS, TARGET_MS, p99_ms
from benchmarks.allocator.workloads import WORKLOADS, Workload
from benchmarks.report import markdown, markdown_row
from dradriver.allocator import ORDERED, PACKED

_ORDERS: Final = {order.name: order for order in (ORDERED, PACKED)}
_NAMES: Final = (*WORKLOADS, "no", "churn", *MIXES)

_SPEED_HEAD: Final = (
    "workload",
    "pods",
    "by",
    "placed",
    "pods/s",
    "CPU ms a pod",
    "p50 ms",
    "p99 ms",
    "max ms",
    "first pod s",
    "load s",
    "load CPU s",
    "memory MiB",
    "times faster",
    "target",
)


def main() -> int:
    """Run the selected workloads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allocator", description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"of {', '.join(_NAMES)} (default: all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the workloads (default 1)")
    parser.add_argument("--pods", type=int, help="how many pods dradriver places (default: all)")
    parser.add_argument(
        "--peer-pods",
        type=int,
        help="how many pods kube-scheduler's plugin places (0: leave it out; default: a sample)",
    )
    parser.add_argument(
        "--orders", nargs="+", choices=_ORDERS, default=[*_ORDERS], help="of dradriver (default: both)"
    )
    options = parser.parse_args()
    wanted = options.what or _NAMES
    if unknown := set(wanted) - {*_NAMES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as folder:
        programs = Programs(Path(folder), with_peer=options.peer_pods != 0)
        if programs.peer is None:
            print("without kube-scheduler's plugin to compare with", file=sys.stderr)
        if names := [name for name in WORKLOADS if name in wanted]:
            print(markdown(_SPEED_HEAD, ()), flush=True)
            for name, seed in product(names, options.seeds):
                for row in _placed(programs, WORKLOADS[name](seed), f"`{name}`, seed {seed}", options):
                    print(markdown_row(row), flush=True)
            print()
        if "no" in wanted:
            print(_refused(programs), end="\n\n", flush=True)
    if "churn" in wanted:
        print(_packing(), end="\n\n", flush=True)
    for name in MIXES:
        if name in wanted:
            print(_fragmentation(name), end="\n\n", flush=True)
    return 0


def _placed(
    programs: Programs, workload: Workload, name: str, options: argparse.Namespace
) -> Iterator[Sequence[str]]:
    """Yield a row for the peer with a sample of the pods, and rows for dradriver in both orders."""
    path = programs.file(workload, options.pods)
    sample = min(options.peer_pods or workload.sample, options.pods or len(workload.pods))
    if programs.peer is not None:
        print(f"{name}: kube-scheduler's plugin, {sample} pods", file=sys.stderr)
    peer = programs.place_by_peer(path, sample)
    if peer:
        yield _row(name, "kube-scheduler's plugin", peer)
    for order in options.orders:
        print(f"{name}: dradriver, {order}", file=sys.stderr)
        ours = programs.place(path, order)
        faster = f"{_pace(ours) / _pace(peer):.4g}" if peer else ""
        yield _row(name, f"dradriver, {order}", ours, faster, f"{workload.target:g}")


def _pace(figures: Figures) -> float:
    """Return pods per second."""
    return figures.offered / figures.seconds


def _row(name: str, by: str, figures: Figures, *more: str) -> Sequence[str]:
    return (
        name,
        str(figures.offered),
        by,
        str(figures.placed),
        f"{_pace(figures):.4g}",
        f"{1e3 * figures.cpu_seconds / figures.offered:.3g}",
        f"{figures.p50_ms:.3g}",
        f"{figures.p99_ms:.3g}",
        f"{figures.max_ms:.3g}",
        f"{figures.first_seconds:.3g}",
        f"{figures.load_seconds:.3g}",
        f"{figures.load_cpu_seconds:.3g}",
        f"{figures.rss_mib:.0f}",
        *(more or ("", "")),
    )


def _refused(programs: Programs) -> str:
    rows = []
    for excess in REFUSALS:
        print(excess.name, file=sys.stderr)
        peer = programs.place_by_peer(programs.file(excess.workload), 3)
        given_up = " (given up)" if peer and peer.failure else ""
        rows.append(
            (
                excess.name,
                *(
                    f"{wall:.3g} ({cpu:.3g})"
                    for wall, cpu in (p99_ms(excess, order) for order in _ORDERS.values())
                ),
                f"{peer.p50_ms:.4g}{given_up}" if peer else "",
                f"{TARGET_MS:g}",
            )
        )
    ours = (f"{order}, p99 ms (of CPU time)" for order in _ORDERS)
    return markdown(("no to", *ours, "kube-scheduler's plugin, p50 ms", "target, ms"), rows)


def _packing() -> str:
    refused: dict[str, list[float]] = {}
    for name, make in POLICIES.items():
        for seed in SEEDS:
            print(f"churn: {name}, seed {seed}", file=sys.stderr)
            refused.setdefault(name, []).append(refused_percent(make, seed))
    packed = mean(refused["packed"])
    rows = []
    for name, percents in refused.items():
        target = TARGETS.get(name)
        ratio = (f"{packed / mean(percents):.3f}", f"{target:g}") if target else ("", "")
        rows.append((name, *(f"{percent:.2f}" for percent in percents), f"{mean(percents):.2f}", *ratio))
    head = ("compute refused, %", *(f"seed {seed}" for seed in SEEDS), "mean", "packed to it", "target")
    return markdown(head, rows)


def _fragmentation(name: str) -> str:
    rows = []
    ratios = []
    for mix in MIXES[name]:
        print(f"{name}: {mix.name}", file=sys.stderr)
        refused = {policy: component_churn.measure(mix, policy) for policy in component_churn.POLICIES}
        ratios.append(refused["packed"].mean / refused["ordered"].mean)
        for policy, each in refused.items():
            last = (f"{ratios[-1]:.3f}", f"{mix.target:g}") if policy == "ordered" else ("", "")
            percents = (f"{percent:.2f}" for percent in each.percents)
            rows.append((mix.name, policy, *percents, f"{each.mean:.2f}", *last))
    seeds = (f"seed {seed}" for seed in component_churn.SEEDS)
    head = ("compute refused, %", "by", *seeds, "mean", "packed to it", "target")
    return f"{markdown(head, rows)}\n\nMean of packed to ordered: {mean(ratios):.3f}"


if __name__ == "__main__":
    sys.exit(main())
