"""Compute the writes that turn the slices of a pool into the wanted ones.

A reader uses the slices of a pool with the highest generation, once there are as many as `resourceSliceCount`
says. A reader between two of our writes must see the old pool, an incomplete new generation, or the wanted
pool. It must never see a mix of old and new slices that counts as complete:

- If every slice of the current generation is as wanted and only some are missing, they are added to it: the
  last plan was interrupted, or a slice was deleted.
- If one slice differs and no other write is needed, it is updated within its generation: one write is atomic,
  even when counters change. (A move between slices changes two.)
- Otherwise the first write begins a new generation, and the rest of older ones is deleted last: readers ignore
  them by then.

If the process dies between two of these writes, the next plan starts from the slices that it finds.
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
    """Replace `old` by `new`, if it still has its resource version."""

    old: ResourceSlice
    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete `old`, if it is still the same object with the same resource version."""

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
    """Return the writes that turn `seen` into `wanted`, in order; empty if nothing has to change.

    Args:
        wanted: all slices of one pool from `layout`. Their generation is ignored.
        seen: all existing slices of that pool.
        owner: the object whose deletion deletes the slices.
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
    """Return the generation to write: the current one if the module's rules allow it, else a new one."""
    same = [
        index for index, old in matched.items() if same_spec(_at_generation(wanted[index], current), old.spec)
    ]
    at_current = [item for item in seen if item.spec.pool.generation == current]
    others = len(at_current) - len(same)  # different or surplus
    missing = len(wanted) - len(same)
    surplus_only = missing == 0 and others == 1
    one_update = missing == 1 and others == 1 and _is_update(matched, same, current)
    keeps = current > 0 and asked <= current and (others == 0 or surplus_only or one_update)
    return current if keeps else max(current + 1, asked)


def _is_update(matched: Mapping[int, ResourceSlice], same: Sequence[int], current: int) -> bool:
    """Return whether the one different slice of the current generation is matched: one update fixes it."""
    return any(index not in same and old.spec.pool.generation == current for index, old in matched.items())


def _match(
    wanted: Sequence[ResourceSliceSpec], seen: Sequence[ResourceSlice], current: int
) -> dict[int, ResourceSlice]:
    """Return for each index the slice to keep: the one as wanted, else the newest, else the first by name."""
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
    """Return whether an update can produce the wanted slice: `nodeName` is immutable, so it must be equal."""
    return item.metadata.deletion_timestamp is None and item.spec.node_name == wanted.node_name


def _digits(count: int) -> int:
    return max(_INDEX_DIGITS, len(f"{max(0, count - 1):x}"))


def _index(name: str, count: int) -> int | None:
    """Return the index at the beginning of a slice's name; None for names in another format."""
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
    """Return the metadata with this owner and without an old UID of it or another controller."""
    if owner is None or owner in meta.owner_references:
        return meta
    others = [
        o for o in meta.owner_references if (o.kind, o.name) != (owner.kind, owner.name) and not o.controller
    ]
    return replace(meta, owner_references=[*others, owner])


def same_spec(one: ResourceSliceSpec, other: ResourceSliceSpec) -> bool:
    """Return whether two specs are equal; the times of taints are ignored, because the server sets them."""
    return one == other or _without_times(one) == _without_times(other)


def _without_times(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    return _retimed(spec, lambda _device, taint: replace(taint, time_added=None))


def _with_times(spec: ResourceSliceSpec, stored: ResourceSliceSpec) -> ResourceSliceSpec:
    """Return the spec with the stored times of existing taints."""
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
