"""The cluster half of the TPU example: partitions of a 4x4 slice as devices that span nodes (KEP-4815).

Four hosts have four TPUs each. One process in the cluster publishes them:
`dradriver run examples.tpu.pools:TpuPools --owner deviceclass/tpu.example.com`.
"""

import os
from collections.abc import Collection, Sequence

import dradriver as dra

HOSTS = os.environ.get("TPU_HOSTS", "node-1,node-2,node-5,node-6").split(",")
"""Hosts row by row: the first two are neighbors, and so are the last two."""
TPUS = 4
POOL = "slice-1"


class TpuPools(dra.PoolDriver):
    name = "tpu.example.com"

    def discover(self) -> Sequence[dra.Pool]:
        upper, lower = HOSTS[:2], HOSTS[2:]
        devices = [
            partition("4x4-1", HOSTS),
            partition("2x4-1", upper),
            partition("2x4-2", lower),
            *(partition(f"2x2-{number}", [host]) for number, host in enumerate(HOSTS, start=1)),
        ]
        return [
            dra.Pool(
                POOL,
                devices=tuple(devices),
                counter_sets=(dra.CounterSet("tpus", tpus_of(HOSTS)),),
                per_device_node_selection=True,
            )
        ]

    def fallback(self, dropped: Collection[str]) -> Sequence[dra.Pool]:  # noqa: ARG002
        """Return the slice as a whole.

        Without counters or node selectors of devices, the partitions would overlap.

        The SDK publishes this layout when no claim holds a partition.
        """
        whole = dra.Device("tpu-4x4-1", {"topology": "4x4"}, {"tpus": TPUS * len(HOSTS)})
        return [dra.Pool(POOL, devices=(whole,), node_selector=any_of(HOSTS))]


def partition(shape: str, hosts: Sequence[str]) -> dra.Device:
    """Return one device with all TPUs of these hosts, for example `2x4-1` for the first of that topology."""
    return dra.Device(
        f"tpu-{shape}",
        attributes={"topology": shape.rpartition("-")[0]},
        capacity={"tpus": TPUS * len(hosts)},
        consumes_counters=[dra.CounterConsumption("tpus", tpus_of(hosts))],
        node_selector=any_of(hosts),
    )


def tpus_of(hosts: Sequence[str]) -> dict[str, int]:
    return {f"tpus-{host.replace('.', '-')}": TPUS for host in hosts}


def any_of(hosts: Sequence[str]) -> dra.NodeSelector:
    wanted = dra.NodeSelectorRequirement("kubernetes.io/hostname", "In", list(hosts))
    return dra.NodeSelector([dra.NodeSelectorTerm(match_expressions=[wanted])])


if __name__ == "__main__":
    dra.run(TpuPools)
