"""The values that screens, pages and files draw. `dradriver top` and the dashboard show the same values.

A *card* is what is drawn as one bar or block: a counter set with the devices that consume from it (KEP-4815),
or all devices of a pool that consume no counters. A *lane* is one row of a card, drawn to scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

__all__ = [
    "Card",
    "CardDevice",
    "Health",
    "Lane",
    "NodeOverview",
    "Overview",
    "PoolProblem",
    "Reach",
    "RecentChange",
    "Segment",
    "Waiting",
]

Health: TypeAlias = Literal["healthy", "unhealthy", "unknown", ""]
"""Health of a device, as the kubelet reports it for running pods (KEP-4680); empty: not reported."""


@dataclass(frozen=True, slots=True)
class CardDevice:
    """A device of a card that is in use, tainted or unhealthy.

    Attributes:
        name: name of the device.
        claims: claims (`namespace/name`) that have the device or shares of the device.
        pods: pods (`namespace/name`) for which these claims are reserved.
        consumes: amounts that the device consumes from the counter set, by counter, as text; empty for a card
            without counters.
        taints: the taints of the driver and of DeviceTaintRules, as `key=value:effect`.
        health: the health that the kubelet reports.
    """

    name: str
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    consumes: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    health: Health = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a lane that a device occupies.

    Attributes:
        device: index of the device in `Card.listed`.
        start, end: position in the lane, from 0 to 1.
    """

    device: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a card, drawn to scale.

    Attributes:
        name: the counter, such as `memory`, or the common prefix of the counters of the cells, such as
            `memory-slice`. `devices` for a card without counters.
        cells: the number of cells; 0 for a bar without cells.
        total, used: amounts as text, such as `40192Mi`. `used` can be more than `total` if a driver has
            reduced the counter.
        segments: the parts in use, ordered by `start`. Parts overlap if counters are overdrawn.
        unused: the parts of listed devices that are not in use. Only a lane of devices has such parts: which
            part of a counter a device would take is not known before the device is in use.
    """

    name: str
    cells: int
    total: str
    used: str
    segments: tuple[Segment, ...] = ()
    unused: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A counter set, or the devices of a pool that consume no counters.

    Attributes:
        driver, pool: driver and name of the pool.
        name: name of the counter set; the name of the pool for a card without counters.
        lanes: the rows. The first lane represents the card where there is space for only one.
        listed: devices that are in use, tainted or unhealthy, in the pool's order.
        fitting: names of the devices that claims can still get.
        devices: number of devices of the card.
        product: what the card is, from the standard attributes of its devices, such as `NVIDIA A100-SXM4-40GB`;
            empty if unknown.
    """

    driver: str
    pool: str
    name: str
    lanes: tuple[Lane, ...]
    listed: tuple[CardDevice, ...] = ()
    fitting: tuple[str, ...] = ()
    devices: int = 0
    product: str = ""


@dataclass(frozen=True, slots=True)
class NodeOverview:
    """A node and the cards that only this node reaches.

    Attributes:
        name: name of the node.
        is_ready: whether the node is ready and not cordoned.
        cards: ordered by driver, pool and name.
        labels: labels of the node, for filters.
    """

    name: str
    is_ready: bool
    cards: tuple[Card, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reach:
    """Cards that several nodes reach: a superpod, or a fabric.

    Attributes:
        driver, pool: driver and name of the pool.
        nodes: names of the nodes that reach at least one device of the pool, in order; all nodes of the cluster
            if `is_everywhere`.
        is_everywhere: whether all nodes reach the pool (`allNodes`).
        cards: the cards of the pool.
        device_nodes: for each device of the pool that only some of `nodes` reach, these nodes.
    """

    driver: str
    pool: str
    nodes: tuple[str, ...]
    is_everywhere: bool
    cards: tuple[Card, ...]
    device_nodes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod or a claim that waits.

    Attributes:
        kind: `Pod` or `ResourceClaim`.
        ref: `namespace/name`.
        since: when the object was created.
        reason: one sentence: why the object waits, as the scheduler or the kubelet reported it.
        node: the node of a pod that waits on its node; empty if it has no node.
    """

    kind: Literal["Pod", "ResourceClaim"]
    ref: str
    since: datetime | None
    reason: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """A pool that claims cannot use.

    Attributes:
        driver, pool: driver and name of the pool.
        node: the node of a node-local pool; empty for other pools.
        problem: the reason.
    """

    driver: str
    pool: str
    node: str
    problem: str


@dataclass(frozen=True, slots=True)
class RecentChange:
    """Something that changed in the last minutes.

    Attributes:
        at: when the change was seen.
        text: one sentence, such as `claim default/train got gpu-0-mig-3g-20gb-0 on node-1`.
        node: the node that the change concerns; empty for changes of the cluster.
        is_problem: whether it is worse than before, such as a taint or an unhealthy device.
    """

    at: datetime
    text: str
    node: str = ""
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """The devices of a cluster.

    Attributes:
        nodes: all nodes with devices, by name.
        reaches: the pools that several nodes reach, ordered by driver and pool.
        waiting: pods and claims that wait, the oldest first.
        problems: pools that cannot be used.
        changes: the last changes, the newest first.
    """

    nodes: Mapping[str, NodeOverview]
    reaches: tuple[Reach, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    problems: tuple[PoolProblem, ...] = ()
    changes: tuple[RecentChange, ...] = ()
