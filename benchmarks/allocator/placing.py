"""`python -m benchmarks.allocator.placing WORKLOAD`: places the pods of a workload in its own process.

It reads the same file as `kubescheduler`, and writes the same figures as JSON. Slices are decoded from JSON
text one by one, as from an API server, and put into a `Placer`. Loading ends with a first placement that is
discarded, so work that the placer defers until then counts as loading.
"""

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from benchmarks.report import percentile
from dradriver.allocator import ORDERED, PACKED, AllocationNode, Features
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slice_reader import SliceReader

__all__ = ["Figures", "main", "measure"]

_ORDERS = {"ordered": ORDERED, "packed": PACKED}


class _File(msgspec.Struct, frozen=True):
    """File of a workload (`workloads.write`)."""

    gates: dict[str, bool]
    nodes: list[str]
    placeholder: str
    slices: list[msgspec.Raw]
    classes: list[msgspec.Raw]
    claims: dict[str, msgspec.Raw]
    pods: list[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run.

    Attributes:
        offered, placed: numbers of pods.
        seconds: wall time of all placements, without loading.
        cpu_seconds: CPU time of the process on all cores.
        p50_ms, p99_ms: percentiles of one placement, in milliseconds.
        load_seconds, load_cpu_seconds: time from reading the file to the first placement.
        rss_mib: peak memory of the process, in MiB.
        failure: the last error of kube-scheduler's plugin, which postpones such a pod; empty if there was none.
    """

    offered: int
    placed: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float
    load_seconds: float
    load_cpu_seconds: float
    rss_mib: float
    failure: str = ""


def measure(path: Path, pods: int, order: str) -> Figures:
    """Place the first `pods` pods and return the figures; 0: all pods."""
    begun, idle = time.perf_counter(), time.process_time()
    work = msgspec.json.decode(path.read_bytes(), type=_File)
    placer = _loaded(work, order)
    specs = {kind: decode(ClaimSpec, raw) for kind, raw in work.claims.items()}
    placer.place([_claim("first", specs[work.pods[0]])])
    gc.collect()
    loaded = time.perf_counter() - begun
    kinds = work.pods[: pods or None]
    used, start = time.process_time(), time.perf_counter()
    samples, placed = [], 0
    for number, kind in enumerate(kinds):
        claim = _claim(f"pod-{number}", specs[kind])
        before = time.perf_counter()
        placed += _place(placer, claim)
        samples.append((time.perf_counter() - before) * 1e3)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - used
    return Figures(
        len(kinds),
        placed,
        seconds,
        cpu_seconds,
        percentile(samples, 50),
        percentile(samples, 99),
        loaded,
        used - idle,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _loaded(work: _File, order: str) -> Placer:
    placer, reader = Placer(order=_ORDERS[order], features=Features.of_gates(work.gates)), SliceReader()
    for raw in work.classes:
        placer.put_class(decode(DeviceClass, raw))
    for name in work.nodes:
        placer.put_node(AllocationNode(name))
        for text in _slices(work, name):
            placer.put_slice(reader.read(text))
    return placer


def _slices(work: _File, node: str) -> Iterator[bytes]:
    for raw in work.slices:
        yield bytes(raw).replace(work.placeholder.encode(), node.encode())


def _claim(name: str, spec: ClaimSpec) -> ResourceClaim:
    return ResourceClaim(metadata=ObjectMeta(namespace="default", name=name, uid=name), spec=spec)


def _place(placer: Placer, claim: ResourceClaim) -> bool:
    try:
        placement = placer.place([claim])
    except NoNodeFits:
        return False
    placer.hold([claim], placement)
    return True


def main(arguments: list[str]) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", type=Path)
    parser.add_argument("--pods", type=int, default=0, help="how many, from the first on (default: all)")
    parser.add_argument("--order", choices=sorted(_ORDERS), default="packed")
    options = parser.parse_args(arguments)
    print(json.dumps(asdict(measure(options.workload, options.pods, options.order))))


if __name__ == "__main__":
    main(sys.argv[1:])
