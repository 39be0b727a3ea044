"""What to write so that the slices of a pool become the wanted ones.

A reader takes the slices of a pool with the highest generation and believes them when there are as many as
`resourceSliceCount` says. Whoever reads between two of our writes must find the pool as it was, an incomplete
new generation, or the pool as it is wanted; never some old slices and some new ones that count as complete:

- If every slice of the current generation is as wanted and only some are missing, they are added to it: that
  was the last plan cut short, or a slice that someone deleted.
- If one slice differs and no other write is needed, it is updated within its generation: one write is atomic,
  even when counters change. (Whatever moves between slices changes two.)
- Otherwise a new generation begins with the first write, and what is left of older ones is deleted last:
  readers do not look at it any more.

If the process dies between two of these writes, the next plan starts from what it finds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec

__all__ = ["Action", "Create", "Delete", "Update", "plan", "same_spec"]


@dataclass(frozen=True, slots=True)
class Create:
    """Create this slice; the server completes its name."""

    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Update:
    """Replace `old` by `new`, if it is still at its resource version."""

    old: ResourceSlice
    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete `old`, if it is still that object at that resource version."""

    old: ResourceSlice


Action: TypeAlias = Create | Update | Delete

_INDEX_DIGITS: Final = 5
"""Names begin with the slice's index in hexadecimal, as `k8s.io/dynamic-resource-allocation` writes it, so that
a pool published by a Go driver is taken over slice by slice."""


def plan(
    wanted: Sequence[ResourceSliceSpec],
    seen: Iterable[ResourceSlice],
    *,
    owner: OwnerReference | None = None,
    generation: int = 0,
) -> list[Action]:
    """The writes that turn `seen` into `wanted`, in order; none if nothing has to change.

    Args:
        wanted: all slices of one pool as `layout` made them; their generation is ignored.
        seen: all slices of that pool that exist.
        owner: the object whose deletion shall delete the slices.
        generation: the driver's own generation, used if it is larger than the published one.
    """
    seen = list(seen)
    current = max((item.spec.pool.generation for item in seen), default=0)
    matched = _match(wanted, seen, current)
    target = _next_generation(wanted, seen, matched, current, generation)
    specs = [_at_generation(spec, target) for spec in wanted]
    actions: list[Action] = []
    for index, spec in enumerate(specs):
        old = matched.get(index)
        if old is None:
            actions.append(Create(_new(index, len(wanted), spec, owner)))
        elif not same_spec(spec, old.spec) or not _owned(old, owner):
            new = replace(old, metadata=_with_owner(old.metadata, owner), spec=_with_times(spec, old.spec))
            actions.append(Update(old, new))
    kept = {old.metadata.uid for old in matched.values()}
    leftover = sorted((item for item in seen if item.metadata.uid not in kept), key=lambda s: s.metadata.name)
    actions.extend(Delete(item) for item in leftover if item.metadata.deletion_timestamp is None)
    return actions


def _next_generation(
    wanted: Sequence[ResourceSliceSpec],
    seen: Sequence[ResourceSlice],
    matched: Mapping[int, ResourceSlice],
    current: int,
    asked: int,
) -> int:
    """The generation to write: the current one if the module's rules allow it, else a new one."""
    same = [
        index for index, old in matched.items() if same_spec(_at_generation(wanted[index], current), old.spec)
    ]
    at_current = [item for item in seen if item.spec.pool.generation == current]
    others = len(at_current) - len(same)  # differ, or are surplus
    missing = len(wanted) - len(same)
    surplus_only = missing == 0 and others == 1
    one_update = missing == 1 and others == 1 and _is_update(matched, same, current)
    keeps = current > 0 and asked <= current and (others == 0 or surplus_only or one_update)
    return current if keeps else max(current + 1, asked)


def _is_update(matched: Mapping[int, ResourceSlice], same: Sequence[int], current: int) -> bool:
    """Whether the one slice of the current generation that differs is matched, so that one update mends it."""
    return any(index not in same and old.spec.pool.generation == current for index, old in matched.items())


def _match(
    wanted: Sequence[ResourceSliceSpec], seen: Sequence[ResourceSlice], current: int
) -> dict[int, ResourceSlice]:
    """For each index the slice to keep: the one that is as wanted, else the newest, else the first by name."""
    matched: dict[int, ResourceSlice] = {}
    ranks: dict[int, tuple[bool, int]] = {}
    for item in sorted(seen, key=lambda s: s.metadata.name):
        index = _index(item.metadata.name, len(wanted))
        if index is None or not _updatable(item, wanted[index]):
            continue
        as_wanted = same_spec(_at_generation(wanted[index], current), item.spec)
        rank = (as_wanted, item.spec.pool.generation)
        if index not in ranks or rank > ranks[index]:
            matched[index], ranks[index] = item, rank
    return matched


def _updatable(item: ResourceSlice, wanted: ResourceSliceSpec) -> bool:
    """Whether an update can make the slice the wanted one: `nodeName` is immutable, and it must stay."""
    return item.metadata.deletion_timestamp is None and item.spec.node_name == wanted.node_name


def _digits(count: int) -> int:
    return max(_INDEX_DIGITS, len(f"{max(0, count - 1):x}"))


def _index(name: str, count: int) -> int | None:
    """The index at the beginning of a slice's name, None for names that no publisher of this kind made."""
    head, dash, _ = name.partition("-")
    if not dash or len(head) != _digits(count) or not set(head) <= set("0123456789abcdef"):
        return None
    index = int(head, 16)
    return index if index < count else None


def _new(index: int, count: int, spec: ResourceSliceSpec, owner: OwnerReference | None) -> ResourceSlice:
    parts = [f"{index:0{_digits(count)}x}", spec.driver, *([owner.name] if owner else []), ""]
    meta = ObjectMeta(generate_name="-".join(parts), owner_references=[owner] if owner else [])
    return ResourceSlice(metadata=meta, spec=spec)


def _at_generation(spec: ResourceSliceSpec, generation: int) -> ResourceSliceSpec:
    pool = PoolReference(
        name=spec.pool.name, generation=generation, resource_slice_count=spec.pool.resource_slice_count
    )
    return replace(spec, pool=pool)


def _owned(item: ResourceSlice, owner: OwnerReference | None) -> bool:
    return owner is None or owner in item.metadata.owner_references


def _with_owner(meta: ObjectMeta, owner: OwnerReference | None) -> ObjectMeta:
    """The metadata with this owner alone in charge: a Node that was made anew has another UID."""
    if owner is None or owner in meta.owner_references:
        return meta
    others = [
        o for o in meta.owner_references if (o.kind, o.name) != (owner.kind, owner.name) and not o.controller
    ]
    return replace(meta, owner_references=[*others, owner])


def same_spec(one: ResourceSliceSpec, other: ResourceSliceSpec) -> bool:
    """Whether two specs say the same; when a taint was added is the server's business."""
    return one == other or _without_times(one) == _without_times(other)


def _without_times(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    return _retimed(spec, lambda _device, taint: replace(taint, time_added=None))


def _with_times(spec: ResourceSliceSpec, stored: ResourceSliceSpec) -> ResourceSliceSpec:
    """The spec with the times of the taints that were there before."""
    times = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in stored.devices
        for taint in device.taints
    }
    return _retimed(
        spec,
        lambda device, taint: replace(
            taint,
            time_added=times.get((device.name, taint.key, taint.value, taint.effect)) or taint.time_added,
        ),
    )


def _retimed(spec: ResourceSliceSpec, change: Callable[[Device, Taint], Taint]) -> ResourceSliceSpec:
    if not any(device.taints for device in spec.devices):
        return spec
    devices = [
        replace(device, taints=[change(device, taint) for taint in device.taints]) if device.taints else device
        for device in spec.devices
    ]
    return replace(spec, devices=devices)
