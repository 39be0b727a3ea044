"""Describes changes of claims, pools and nodes, each in one sentence."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview.counters.counter_use import list_devices
from dradriver.overview.tracked_pool import TrackedPool
from dradriver.overview.values import RecentChange

__all__ = ["describe_claim", "describe_node", "describe_pool", "is_ready"]

_MAX_NAMES: Final = 4


def describe_claim(
    at: datetime,
    old: ResourceClaim | None,
    new: ResourceClaim | None,
    node_of: Callable[[PoolKey], str | None],
) -> Iterator[RecentChange]:
    """Yield what a claim got and released.

    Args:
        at: the present time.
        old: the claim before the change; None if it was created.
        new: the claim after the change; None if it was deleted.
        node_of: returns the node of a node-local pool.
    """
    before, after = _devices(old), _devices(new)
    for verb, of, devices in (
        ("released", old, [each for each in before if each not in after]),
        ("got", new, [each for each in after if each not in before]),
    ):
        if devices and of is not None:
            node = node_of(devices[0][0]) or _selected_node(of)
            where = f" on {node}" if node else ""
            yield RecentChange(
                at, f"claim {of.ref} {verb} {_names([name for _, name in devices])}{where}", node
            )


def _devices(claim: ResourceClaim | None) -> Sequence[tuple[PoolKey, str]]:
    return [((each.driver, each.pool), each.device) for each in claim.results] if claim is not None else []


def _selected_node(claim: ResourceClaim) -> str:
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    return selector.only_node if selector is not None else ""


def describe_pool(at: datetime, old: TrackedPool | None, new: TrackedPool | None) -> Iterator[RecentChange]:
    """Yield the changes of a pool's problem, and of the taints and the health of its devices.

    Args:
        at: the present time.
        old: the pool before the change; None if it was published.
        new: the pool after the change; None if it was removed.
    """
    present = new or old
    if present is None:
        return
    node, pool = present.node or "", "/".join(present.key)
    if old is None or new is None:
        count = len(list_devices(present.view))
        devices = "1 device" if count == 1 else f"{count} devices"
        text = f"pool {pool} was published: {devices}" if new is not None else f"pool {pool} is gone"
        yield RecentChange(at, text, node, new is None)
        return
    if old.view.problem != new.view.problem:
        text = f"pool {pool}: {new.view.problem}" if new.view.problem else f"pool {pool} can be used again"
        yield RecentChange(at, text, node, new.view.problem is not None)
    if old.view is not new.view:
        before, after = _taints(old), _taints(new)
        for taint in sorted(before.keys() | after.keys()):
            added = [name for name in after.get(taint, {}) if name not in before.get(taint, {})]
            gone = [name for name in before.get(taint, {}) if name not in after.get(taint, {})]
            if added:
                yield RecentChange(
                    at, f"{_names(added)} of pool {pool}: tainted {taint}", node, is_problem=True
                )
            if gone:
                yield RecentChange(at, f"{_names(gone)} of pool {pool}: no longer tainted {taint}", node)
    yield from _describe_health(at, old, new, pool)


def _taints(state: TrackedPool) -> Mapping[str, Mapping[str, None]]:
    """Return the names of the devices that have each taint, in order."""
    tainted: dict[str, dict[str, None]] = {}
    for device in list_devices(state.view):
        for taint in device.taints:
            tainted.setdefault(str(taint), {})[device.name] = None
    return tainted


def _describe_health(at: datetime, old: TrackedPool, new: TrackedPool, pool: str) -> Iterator[RecentChange]:
    before, after = old.health or {}, new.health or {}
    for word, is_problem in (("unhealthy", True), ("healthy", False)):
        names = [
            name
            for name, health in after.items()
            # The first report of a healthy device is no news.
            if health == word and before.get(name, "healthy") != word
        ]
        if names:
            yield RecentChange(at, f"{_names(names)} of pool {pool}: {word}", new.node or "", is_problem)


def is_ready(node: Node | None) -> bool | None:
    """Return whether a node is ready and not cordoned; None if there is no node.

    Args:
        node: the node. Without the condition `Ready`, as in files, it counts as ready.
    """
    if node is None:
        return None
    status = next((each.status for each in node.status.conditions if each.type == "Ready"), "True")
    return status == "True" and not node.spec.unschedulable


def describe_node(
    at: datetime, name: str, *, was_ready: bool | None, is_ready: bool | None
) -> Iterator[RecentChange]:
    """Yield the change of a node's readiness.

    Args:
        at: the present time.
        name: name of the node.
        was_ready: whether the node was ready and not cordoned; None if it did not exist.
        is_ready: whether it is ready and not cordoned now; None if it is gone.
    """
    if was_ready == is_ready:
        return
    texts = {True: "is ready", False: "is not ready or cordoned", None: "is gone"}
    prefix = "new node" if was_ready is None else "node"
    yield RecentChange(at, f"{prefix} {name} {texts[is_ready]}", name, not is_ready)


def _names(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MAX_NAMES} more" if len(unique) > _MAX_NAMES else ""
    return f"{', '.join(unique[:_MAX_NAMES])}{more}"
