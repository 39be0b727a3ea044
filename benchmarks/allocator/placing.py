"""`python -m benchmarks.allocator.placing WORKLOAD`: places the pods of a workload in its own process.

It reads the same file as `kubescheduler`, and writes the same figures as JSON. The lines of the file are
decoded one by one, as from an API server, and put into a `Placer`. Work that the placer defers until the first
pod counts for this pod.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from benchmarks.report import percentile
from dradriver.aio.bulk_load import bulk_load
from dradriver.allocator import ORDERED, PACKED, AllocationNode, Features
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slice_reader import SliceReader

__all__ = ["Cluster", "Figures", "main", "measure"]

_ORDERS = {"ordered": ORDERED, "packed": PACKED}


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run.

    Attributes:
        offered, placed: numbers of pods.
        seconds: wall time of all placements, without loading.
        cpu_seconds: CPU time of the process on all cores for all placements.
        p50_ms, p99_ms, max_ms: percentiles and maximum of one placement, in milliseconds.
        first_seconds: time from the last slice until the first pod is placed, with the claims that are held at
            the start.
        load_seconds, load_cpu_seconds: time from opening the file until the last slice.
        rss_mib: peak memory of the process, in MiB.
        failure: the last error of kube-scheduler's plugin, which postpones such a pod; empty if there was none.
    """

    offered: int
    placed: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    first_seconds: float
    load_seconds: float
    load_cpu_seconds: float
    rss_mib: float
    failure: str = ""


class _Settings(msgspec.Struct, frozen=True):
    """First line of a workload's file."""

    gates: dict[str, bool]
    stay: int


class Cluster:
    """A placer with the nodes and devices of a workload.

    Args:
        path: the workload's file (`workloads.stream`).
        order: name of the order.
    """

    def __init__(self, path: Path, order: str) -> None:
        self._lines = _read(path)
        self._reader = SliceReader()
        _, text = next(self._lines)
        self._settings = msgspec.json.decode(text, type=_Settings)
        self.placer = Placer(order=_ORDERS[order], features=Features.of_gates(self._settings.gates))
        with bulk_load():
            self._next = next(self._lines)
            while self._next[0] in {b"class", b"node", b"slice"}:
                self._put(*self._next)
                self._next = next(self._lines)

    def claims(self) -> Iterator[ResourceClaim]:
        """Yield the claim of each pod. Claims that are held at the start are put before the first one."""
        word, text = self._next
        while word == b"held":
            self.placer.put_claim(decode(ResourceClaim, text))
            word, text = next(self._lines)
        number = 0
        while word == b"pod":
            name = f"pod-{number}"
            meta = ObjectMeta(namespace="default", name=name, uid=name)
            yield ResourceClaim(metadata=meta, spec=decode(ClaimSpec, text))
            word, text = next(self._lines, (b"", b""))
            number += 1

    def leave(self, number: int) -> None:
        """Remove the claim of the pod that leaves before the pod with this number comes, if there is one."""
        if 0 < self._settings.stay <= number:
            self.placer.remove_claim(f"default/pod-{number - self._settings.stay}")

    def _put(self, word: bytes, text: bytes) -> None:
        match word:
            case b"class":
                self.placer.put_class(decode(DeviceClass, text))
            case b"node":
                self.placer.put_node(msgspec.json.decode(text, type=AllocationNode))
            case _:
                self.placer.put_slice(self._reader.read(text))


def measure(path: Path, order: str) -> Figures:
    """Place the pods of a workload and return the figures."""
    begun, idle = time.perf_counter(), time.process_time()
    cluster = Cluster(path, order)
    loaded, load_cpu = time.perf_counter(), time.process_time() - idle
    first = placed = 0.0
    cpu_seconds = 0.0
    samples: list[float] = []
    for number, claim in enumerate(cluster.claims()):
        used, before = time.process_time(), time.perf_counter()
        cluster.leave(number)
        placed += _place(cluster.placer, claim)
        after = time.perf_counter()
        cpu_seconds += time.process_time() - used
        samples.append((after - before) * 1e3)
        first = first or after - loaded
    return Figures(
        offered=len(samples),
        placed=int(placed),
        seconds=sum(samples) / 1e3,
        cpu_seconds=cpu_seconds,
        p50_ms=percentile(samples, 50),
        p99_ms=percentile(samples, 99),
        max_ms=max(samples),
        first_seconds=first,
        load_seconds=loaded - begun,
        load_cpu_seconds=load_cpu,
        rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _read(path: Path) -> Iterator[tuple[bytes, bytes]]:
    with path.open("rb") as file:
        for line in file:
            word, _, text = line.rstrip().partition(b" ")
            yield word, text


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
    parser.add_argument("--order", choices=sorted(_ORDERS), default="packed")
    options = parser.parse_args(arguments)
    print(json.dumps(asdict(measure(options.workload, options.order))))


if __name__ == "__main__":
    main(sys.argv[1:])
