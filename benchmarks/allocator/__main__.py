"""`python -m benchmarks.allocator`: places the pods of every workload, and prints figures and their targets."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

from benchmarks.allocator.churn import POLICIES, SEEDS, TARGETS, refused_percent
from benchmarks.allocator.placing import Figures
from benchmarks.allocator.programs import Programs
from benchmarks.allocator.refusals import REFUSALS, TARGET_MS, p99_ms
from benchmarks.allocator.workloads import WORKLOADS, Workload
from benchmarks.report import markdown
from dradriver.allocator import ORDERED, PACKED

_ORDERS: Final = (ORDERED, PACKED)

_SPEED_HEAD: Final = (
    "workload",
    "pods",
    "by",
    "placed",
    "pods/s",
    "CPU ms a pod",
    "p50 ms",
    "p99 ms",
    "load s",
    "load CPU s",
    "memory MiB",
    "times faster",
    "target",
)


def main() -> int:
    """Run the selected workloads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allocator", description=__doc__)
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"of {', '.join([*WORKLOADS, 'no', 'churn'])} (default: all)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the workloads (default 1)")
    parser.add_argument(
        "--peer-pods",
        type=int,
        help="how many pods the peer places (0: all; default: a sample of each workload)",
    )
    parser.add_argument("--no-peer", action="store_true", help="leave kube-scheduler's plugin out")
    options = parser.parse_args()
    wanted = options.what or [*WORKLOADS, "no", "churn"]
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as folder:
        programs = Programs(Path(folder), with_peer=not options.no_peer)
        if programs.peer is None:
            print("without kube-scheduler's plugin to compare with", file=sys.stderr)
        rows = [
            row
            for name in WORKLOADS
            if name in wanted
            for seed in options.seeds
            for row in _placed(programs, WORKLOADS[name](seed), seed, options.peer_pods)
        ]
        if rows:
            print(markdown(_SPEED_HEAD, rows), end="\n\n", flush=True)
        if "no" in wanted:
            print(_refused(programs), end="\n\n", flush=True)
    if "churn" in wanted:
        print(_packing())
    return 0


def _placed(
    programs: Programs, workload: Workload, seed: int, peer_pods: int | None
) -> Iterator[Sequence[str]]:
    """Yield rows for dradriver in both orders with all pods, and one for the peer with a sample of them."""
    path = programs.file(workload)
    name = f"{workload.name}, seed {seed}"
    sample = workload.sample if peer_pods is None else peer_pods
    if programs.peer is not None:
        print(f"{name}: kube-scheduler's plugin, {sample or 'all'} pods", file=sys.stderr)
    peer = programs.place_by_peer(path, sample)
    if peer:
        yield _row(name, "kube-scheduler's plugin", peer)
    for order in _ORDERS:
        print(f"{name}: dradriver, {order.name}, all pods", file=sys.stderr)
        ours = programs.place(path, order.name)
        faster = f"{_pace(ours) / _pace(peer):.4g}" if peer else ""
        yield _row(name, f"dradriver, {order.name}", ours, faster, f"{workload.target:g}")


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
        f"{figures.load_seconds:.3g}",
        f"{figures.load_cpu_seconds:.3g}",
        f"{figures.rss_mib:.0f}",
        *(more or ("", "")),
    )


def _refused(programs: Programs) -> str:
    rows = []
    for workload in REFUSALS:
        print(workload.name, file=sys.stderr)
        peer = programs.place_by_peer(programs.file(workload), 0)
        given_up = " (given up)" if peer and peer.failure else ""
        rows.append(
            (
                workload.name,
                *(f"{wall:.3g} ({cpu:.3g})" for wall, cpu in (p99_ms(workload, order) for order in _ORDERS)),
                f"{peer.p50_ms:.4g}{given_up}" if peer else "",
                f"{TARGET_MS:g}",
            )
        )
    ours = (f"{order.name}, p99 ms (of CPU time)" for order in _ORDERS)
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


if __name__ == "__main__":
    sys.exit(main())
