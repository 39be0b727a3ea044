"""The pool driver of the TPU example: its devices are partitions of a 4x4 slice and span nodes (KEP-4815).

Four hosts have four TPUs each. Run one process in the cluster that publishes the partitions: `dradriver run
examples.tpu.pools:TpuPools --owner deviceclass/tpu.example.com`.
"""

import os
from collections.abc import Collection, Sequence

import dradriver as dra

HOSTS = os.environ.get("TPU_HOSTS", "node-1,node-2,node-5,node-6").split(",")
"""Hosts row by row: the first two hosts are neighbors, and the last two hosts are neighbors."""
TPUS = 4
POOL = "slice-1"


class TpuPools(dra.PoolDriver):
    name = "tpu.example.com"

    def discover(self) -> Sequence[dra.Pool]:
        upper, lower = HOSTS[:2], HOSTS[2:]
        devices = [
            make_partition("4x4-1", HOSTS),
            make_partition("2x4-1", upper),
            make_partition("2x4-2", lower),
            *(make_partition(f"2x2-{number}", [host]) for number, host in enumerate(HOSTS, start=1)),
        ]
        return [
            dra.Pool(
                POOL,
                devices=tuple(devices),
                counter_sets=(dra.CounterSet("tpus", make_counters(HOSTS)),),
                per_device_node_selection=True,
            )
        ]

    def fallback(self, dropped: Collection[str]) -> Sequence[dra.Pool]:  # noqa: ARG002
        """Return the slice as a whole.

        Without counters or node selectors of devices, the partitions would overlap.

        The SDK publishes this layout when no claim holds a partition.
        """
        full_slice = dra.Device("tpu-4x4-1", {"topology": "4x4"}, {"tpus": TPUS * len(HOSTS)})
        return [dra.Pool(POOL, devices=(full_slice,), node_selector=make_node_selector(HOSTS))]


def make_partition(shape: str, hosts: Sequence[str]) -> dra.Device:
    """Return one device with all TPUs of these hosts, for example `2x4-1` for the first of that topology."""
    return dra.Device(
        f"tpu-{shape}",
        attributes={"topology": shape.rpartition("-")[0]},
        capacity={"tpus": TPUS * len(hosts)},
        consumes_counters=[dra.CounterConsumption("tpus", make_counters(hosts))],
        node_selector=make_node_selector(hosts),
    )


def make_counters(hosts: Sequence[str]) -> dict[str, int]:
    return {f"tpus-{host.replace('.', '-')}": TPUS for host in hosts}


def make_node_selector(hosts: Sequence[str]) -> dra.NodeSelector:
    requirement = dra.NodeSelectorRequirement("kubernetes.io/hostname", "In", list(hosts))
    return dra.NodeSelector([dra.NodeSelectorTerm(match_expressions=[requirement])])


if __name__ == "__main__":
    dra.run(TpuPools)
