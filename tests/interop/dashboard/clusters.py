"""Clusters whose pages are pictures: devices of each kind, with something that waits and changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.overview import Overview, PoolProblem, RecentChange, Waiting
from tests.unit.overview.clusters import cxl, fpga, mig, tpu

_THEN: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def busy() -> Overview:
    """GPUs on twelve nodes, a superpod, a fabric, and what needs attention."""
    base = mig()
    first, second = base.nodes["node-1"], base.nodes["node-2"]
    nodes = {"node-01": replace(first, name="node-01"), "node-02": replace(second, name="node-02")}
    for number in range(3, 13):
        name = f"node-{number:02}"
        source = first if number % 3 else second
        cards = tuple(replace(card, pool=name) for card in source.cards * (4 if number % 2 else 1))
        cards = tuple(replace(card, name=f"gpu-{at}") for at, card in enumerate(cards))
        nodes[name] = replace(source, name=name, cards=cards, is_ready=True)
    return replace(
        base,
        nodes=nodes,
        reaches=(*tpu().reaches, *cxl().reaches),
        waiting=(
            Waiting("Pod", "default/train-7", None, "0/12 nodes are available: 12 cannot allocate all claims."),
            Waiting("ResourceClaim", "research/notebook", None, "not allocated: no known pod uses it"),
        ),
        problems=(PoolProblem("gpu.nvidia.com", "node-13", "node-13", "pool is incomplete: 1 of 2 slices"),),
        changes=(
            RecentChange(_THEN, "claim default/train got gpu-0-mig-3g-20gb-0 on node-1", "node-1"),
            RecentChange(
                _THEN - timedelta(seconds=40), "device gpu-1 of node-1 is unhealthy", "node-1", is_problem=True
            ),
        ),
    )


CLUSTERS: Final[Mapping[str, Callable[[], Overview]]] = {
    "mig": mig,
    "fpga": fpga,
    "tpu": tpu,
    "cxl": cxl,
    "busy": busy,
}
SIZES: Final = {"phone": (390, 844), "laptop": (1440, 900), "wall": (3840, 2160)}
SCHEMES: Final = ("light", "dark")
