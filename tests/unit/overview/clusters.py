"""Clusters with devices of each kind, as their drivers publish them, for drawings."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

import dradriver as dra
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.overview import Overview
from dradriver.publish.layout import layout
from dradriver.testing.builders import allocated, claim, node
from dradriver_fabric_cxl.offer import OfferRules
from examples.tpu.pools import HOSTS, POOL, TpuPools
from tests.drivers.fabric_cxl.offer.fabrics import make_domain, make_host, make_layout
from tests.unit.overview.objects import health_of, holding, mig_slices, overview, pod_of, rule


def slices_of(pool: dra.Pool, driver: str, on: str | None = None) -> list[ResourceSlice]:
    """The slices of a pool, as the SDK publishes them."""
    return [
        ResourceSlice(metadata=ObjectMeta(name=f"{pool.name or on}-{number}"), spec=spec)
        for number, spec in enumerate(layout(pool, driver, on))
    ]


def held(name: str, driver: str, pool: str, *devices: str) -> ResourceClaim:
    """A claim that was allocated devices of a pool."""
    results = [DeviceResult(request="device", driver=driver, pool=pool, device=each) for each in devices]
    return allocated(claim(name=name), *results)


def hosts(names: Iterable[str]) -> list[Node]:
    """Nodes with their host name as a label."""
    return [node(name, **{"kubernetes.io/hostname": name}) for name in names]


def mig() -> Overview:
    """Two A100: one with partitions, one whole, tainted and unhealthy; and a node that is cordoned."""
    cordoned = node("node-2")
    cordoned = replace(cordoned, spec=replace(cordoned.spec, unschedulable=True))
    resource = "gpu.nvidia.com/node-1/gpu-1"
    return overview(
        *mig_slices("node-1", 2),
        *mig_slices("node-2"),
        *(node("node-1"), cordoned),
        holding("train", "gpu-0-mig-3g-20gb-0", pods=["train-0"]),
        holding("infer", "gpu-0-mig-1g-5gb-4"),
        holding("whole", "gpu-1", pods=["big-0", "big-1"]),
        rule("repair", "repair:NoSchedule", device="gpu-1"),
        rule("test", "<test>:NoSchedule", device="gpu-0-mig-1g-5gb-6"),
        pod_of("whole", name="big-0", containerStatuses=[health_of("whole", **{resource: "Unhealthy"})]),
    )


def fpga() -> Overview:
    """A card with two regions and two shells, which exclude each other (KEP-5963)."""
    devices = [
        dra.Device(
            f"pci-0000-3b-00-0-region-{region}-{shell}",
            {"type": "region", "interfaceID": shell},
            consumes_counters=[dra.CounterConsumption("pci-0000-3b-00-0", {f"region-{region}": 1}, [shell])],
        )
        for shell in ("a1b2", "c3d4")
        for region in range(2)
    ]
    counters = dra.CounterSet("pci-0000-3b-00-0", {"region-0": 1, "region-1": 1})
    pool = dra.Pool(devices=tuple(devices), counter_sets=(counters,))
    driver = "fpga.example.com"
    use = held("encode", driver, "node-1", "pci-0000-3b-00-0-region-0-a1b2")
    return overview(*slices_of(pool, driver, "node-1"), use, node("node-1"))


def tpu() -> Overview:
    """A superpod of four hosts: one half in use, one host of the other half too."""
    (pool,) = TpuPools().discover()
    driver = TpuPools.name
    return overview(
        *slices_of(pool, driver),
        *hosts(HOSTS),
        held("train", driver, POOL, "tpu-2x4-1"),
        held("test", driver, POOL, "tpu-2x2-3"),
    )


def cxl(*, whole_domains: bool = False) -> Overview:
    """A fabric with memory for two hosts."""
    made = make_layout(
        [make_domain("pool-a", 4096)],
        [make_host(0), make_host(1)],
        rules=OfferRules(whole_domains=whole_domains),
    )
    driver = "cxl.example.com"
    slices = slices_of(made.build_pool(), driver)
    names = [device.name for source in slices for device in source.spec.devices]
    return overview(
        *slices, *hosts(made.list_nodes()), held("cache", driver, slices[0].spec.pool.name, names[0])
    )


CLUSTERS: Final[Mapping[str, Callable[[], Overview]]] = {"mig": mig, "fpga": fpga, "tpu": tpu, "cxl": cxl}
