"""Compute the writes that turn the stored slices of a pool into the wanted slices.

A reader uses the slices of a pool with the highest generation as soon as there are `resourceSliceCount` of
them. Between two writes, a reader must see the old pool, an incomplete new generation, or the wanted pool. It
must never see a mix of old and new slices that counts as complete:

- If all slices of the current generation are as wanted and some wanted slices are missing, the missing slices
  are created in the current generation. In this case the last plan was interrupted, or a slice was deleted.
- If one slice differs and no other write is needed, it is updated in its generation, because one write is
  atomic, even if counters change. (If a device moves between slices, two slices differ.)
- Otherwise the first write begins a new generation. The remaining slices of older generations are deleted last,
  because readers ignore them after the new generation is complete.

If the process dies between two writes, the next plan starts from the slices that it finds.
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
    """Create this slice. The server completes its name."""

    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Update:
    """Replace `old` with `new` if `old` still has its resource version on the server."""

    old: ResourceSlice
    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete `old` if its UID and resource version on the server are unchanged."""

    old: ResourceSlice


Action: TypeAlias = Create | Update | Delete

_INDEX_DIGITS: Final = 5
"""Number of hexadecimal digits of the slice's index at the beginning of a name.

`k8s.io/dynamic-resource-allocation` uses this format too, so the slices of a Go driver can be matched and kept.
"""


def plan(
    wanted: Sequence[ResourceSliceSpec],
    existing: Iterable[ResourceSlice],
    *,
    owner: OwnerReference | None = None,
    generation: int = 0,
) -> list[Action]:
    """Return the writes that turn `existing` into `wanted`, in order; empty if nothing has to change.

    Args:
        wanted: all slices of one pool, as `layout` returns them. Their generation is ignored.
        existing: all slices of the pool on the server.
        owner: the owner of the slices. Kubernetes deletes the slices with it.
        generation: the generation that the driver sets. It is used if it is larger than the published
            generation.
    """
    existing = list(existing)
    current = max((item.spec.pool.generation for item in existing), default=0)
    matched = _match(wanted, existing, current)
    target = _next_generation(wanted, existing, matched, current, generation)
    specs = [_set_generation(spec, target) for spec in wanted]
    actions: list[Action] = []
    for index, spec in enumerate(specs):
        old = matched.get(index)
        if old is None:
            actions.append(Create(_new_slice(index, len(wanted), spec, owner)))
        elif not same_spec(spec, old.spec) or not _has_owner(old, owner):
            new = replace(old, metadata=_set_owner(old.metadata, owner), spec=_copy_times(spec, old.spec))
            actions.append(Update(old, new))
    kept = {old.metadata.uid for old in matched.values()}
    leftover = sorted(
        (item for item in existing if item.metadata.uid not in kept), key=lambda s: s.metadata.name
    )
    actions.extend(Delete(item) for item in leftover if item.metadata.deletion_timestamp is None)
    return actions


def _next_generation(
    wanted: Sequence[ResourceSliceSpec],
    existing: Sequence[ResourceSlice],
    matched: Mapping[int, ResourceSlice],
    current: int,
    requested: int,
) -> int:
    """Return the generation to write: the current one if the module's rules allow it, else a new one."""
    same = [
        index for index, old in matched.items() if same_spec(_set_generation(wanted[index], current), old.spec)
    ]
    at_current = [item for item in existing if item.spec.pool.generation == current]
    rest = len(at_current) - len(same)  # slices that differ or are not needed
    missing = len(wanted) - len(same)
    surplus_only = missing == 0 and rest == 1
    one_update = missing == 1 and rest == 1 and _is_update(matched, same, current)
    keeps = current > 0 and requested <= current and (rest == 0 or surplus_only or one_update)
    return current if keeps else max(current + 1, requested)


def _is_update(matched: Mapping[int, ResourceSlice], same: Sequence[int], current: int) -> bool:
    """Return whether one update suffices: the only slice that differs can be updated to a wanted slice."""
    return any(index not in same and old.spec.pool.generation == current for index, old in matched.items())


def _match(
    wanted: Sequence[ResourceSliceSpec], existing: Sequence[ResourceSlice], current: int
) -> dict[int, ResourceSlice]:
    """Return by index the slice to keep: first choice one that is as wanted, then the newest, then by name."""
    matched: dict[int, ResourceSlice] = {}
    ranks: dict[int, tuple[bool, int]] = {}
    for item in sorted(existing, key=lambda s: s.metadata.name):
        index = _index(item.metadata.name, len(wanted))
        if index is None or not _can_update(item, wanted[index]):
            continue
        as_wanted = same_spec(_set_generation(wanted[index], current), item.spec)
        rank = (as_wanted, item.spec.pool.generation)
        if index not in ranks or rank > ranks[index]:
            matched[index], ranks[index] = item, rank
    return matched


def _can_update(item: ResourceSlice, wanted: ResourceSliceSpec) -> bool:
    """Return whether an update can produce the wanted slice. `nodeName` is immutable, so it must be equal."""
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


def _new_slice(index: int, count: int, spec: ResourceSliceSpec, owner: OwnerReference | None) -> ResourceSlice:
    parts = [f"{index:0{_digits(count)}x}", spec.driver, *([owner.name] if owner else []), ""]
    meta = ObjectMeta(generate_name="-".join(parts), owner_references=[owner] if owner else [])
    return ResourceSlice(metadata=meta, spec=spec)


def _set_generation(spec: ResourceSliceSpec, generation: int) -> ResourceSliceSpec:
    pool = PoolReference(
        name=spec.pool.name, generation=generation, resource_slice_count=spec.pool.resource_slice_count
    )
    return replace(spec, pool=pool)


def _has_owner(item: ResourceSlice, owner: OwnerReference | None) -> bool:
    return owner is None or owner in item.metadata.owner_references


def _set_owner(meta: ObjectMeta, owner: OwnerReference | None) -> ObjectMeta:
    """Return the metadata with this owner. An old UID of the owner and other controllers are removed."""
    if owner is None or owner in meta.owner_references:
        return meta
    rest = [
        o for o in meta.owner_references if (o.kind, o.name) != (owner.kind, owner.name) and not o.controller
    ]
    return replace(meta, owner_references=[*rest, owner])


def same_spec(one: ResourceSliceSpec, other: ResourceSliceSpec) -> bool:
    """Return whether two specs are equal. The times of taints are ignored, because the server sets them."""
    return one == other or _drop_times(one) == _drop_times(other)


def _drop_times(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    return _change_times(spec, lambda _device, taint: replace(taint, time_added=None))


def _copy_times(spec: ResourceSliceSpec, stored: ResourceSliceSpec) -> ResourceSliceSpec:
    """Return the spec with the times that taints of `stored` already have."""
    times = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in stored.devices
        for taint in device.taints
    }
    return _change_times(
        spec,
        lambda device, taint: replace(
            taint,
            time_added=times.get((device.name, taint.key, taint.value, taint.effect)) or taint.time_added,
        ),
    )


def _change_times(spec: ResourceSliceSpec, change: Callable[[Device, Taint], Taint]) -> ResourceSliceSpec:
    if not any(device.taints for device in spec.devices):
        return spec
    devices = [
        replace(device, taints=[change(device, taint) for taint in device.taints]) if device.taints else device
        for device in spec.devices
    ]
    return replace(spec, devices=devices)
