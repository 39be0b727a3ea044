"""Find the pools from which another allocator allocates devices too, such as a kube-scheduler with its plugin.

Two allocators do not know of each other's decisions that are still being written, so both may allocate one
device. A pool is contested if both of these are true:

- Another allocator has allocated a claim from the pool since this scheduler was installed, and the claim still
  exists.
- Pods of this scheduler use devices of the pool, or a class that such a claim requests. A pod that waits for
  an extended resource of a class (KEP-5004) uses the class before its special claim exists.

So a cluster in which each scheduler has classes and pools of its own has no contested pool. Allocations from
before the installation do not count: otherwise, workloads could not move to this scheduler in a rolling update,
because the new pods would wait for the old ones. Pools that no slice publishes do not count either: their
devices are allocated by controllers (KEP-3063), and never by this scheduler.

A change of one claim costs work for its own pools and classes. Only if the first pod of this scheduler begins
to use a class, or the last one ends, the other allocator's claims of this class are read.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.extended import ClassesByResource, requested_amounts
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = [
    "CONTESTED_POOL",
    "SHARED_CLASS",
    "ClaimUse",
    "ContestedPool",
    "OtherAllocators",
    "describe_use",
    "describe_wait",
    "find_other_scheduler",
    "scheduler_of",
    "waited_for",
]

CONTESTED_POOL: Final = "ContestedPool"
"""The reason of the event: two schedulers allocate from a pool."""
SHARED_CLASS: Final = "SharedDeviceClass"
"""The reason of the event: pods of two schedulers use a class, and both may allocate from its pools."""

_MAX_SHOWN: Final = 3
_MAX_KNOWN_USES: Final = 10_000
_ADVICE: Final = "Use a DeviceClass for each scheduler, so that the pools of their devices differ"

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """The facts about a claim that decide whether its pools are contested.

    A pod that waits for extended resources counts as a claim without devices.

    Attributes:
        classes: the device classes of its requests.
        pools: the pools of its devices, without admin access.
        is_ours: whether a pod of this scheduler uses it.
        waiting_for: the other schedulers whose pods use it and have no node.
        allocator: the other allocator that has allocated the claim since this scheduler was installed; empty if
            there is none.
    """

    classes: frozenset[str] = frozenset()
    pools: frozenset[PoolKey] = frozenset()
    is_ours: bool = False
    waiting_for: frozenset[str] = frozenset()
    allocator: str = ""


@dataclass(frozen=True, slots=True)
class ContestedPool:
    """The other allocator of a pool, and a claim that it has allocated (`namespace/name`)."""

    allocator: str
    claim: str


def scheduler_of(pod: Pod) -> str:
    """Return the scheduler of a pod."""
    return pod.spec.scheduler_name or "default-scheduler"


def find_other_scheduler(claim: ResourceClaim, pods: Collection[Pod], ours: Collection[str]) -> str:
    """Return another scheduler for whose pod a claim is reserved; empty if there is none.

    Args:
        claim: the claim.
        pods: the pods that use it.
        ours: the names of this scheduler.
    """
    reserved = {consumer.uid for consumer in claim.status.reserved_for}
    schedulers = {scheduler_of(pod) for pod in pods if pod.metadata.uid in reserved}
    return min(schedulers.difference(ours), default="")


def describe_use(
    claim: ResourceClaim, pods: Collection[Pod], ours: Collection[str], allocator: str = ""
) -> ClaimUse | None:
    """Return what counts about a claim; None if nothing does.

    Args:
        claim: the claim.
        pods: the pods that use it.
        ours: the names of this scheduler.
        allocator: the other allocator that has allocated the claim since this scheduler was installed; empty if
            there is none.
    """
    active = [pod for pod in pods if not pod.finished]
    others = [pod for pod in active if scheduler_of(pod) not in ours]
    use = ClaimUse(
        classes=frozenset(_classes_of(claim)),
        pools=frozenset((r.driver, r.pool) for r in claim.results if not r.admin_access),
        is_ours=len(others) < len(active),
        waiting_for=frozenset(scheduler_of(pod) for pod in others if not pod.spec.node_name),
        allocator=allocator,
    )
    return use if use.is_ours or use.waiting_for or use.allocator else None


def waited_for(pod: Pod) -> Collection[str]:
    """Return the extended resources for which a pod waits.

    A pod with a node does not wait: its special claim has the devices, or a device plugin serves the pod.
    """
    return () if pod.finished or pod.spec.node_name else requested_amounts(pod)


def describe_wait(pod: Pod, ours: Collection[str], classes: ClassesByResource) -> ClaimUse | None:
    """Return what counts about the extended resources of a pod; None if it waits for no class.

    Args:
        pod: the pod.
        ours: the names of this scheduler.
        classes: the device classes by the extended resources that they serve.
    """
    names = frozenset(name for each in waited_for(pod) if (name := classes.class_name(each)))
    if not names:
        return None
    scheduler = scheduler_of(pod)
    if scheduler in ours:
        return ClaimUse(classes=names, is_ours=True)
    return ClaimUse(classes=names, waiting_for=frozenset({scheduler}))


def _classes_of(claim: ResourceClaim) -> Iterable[str]:
    for request in claim.spec.devices.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None:
                yield each.device_class_name


class _Index(Generic[K]):
    """The claims (`namespace/name`) of each key, oldest first."""

    def __init__(self) -> None:
        self._refs: dict[K, dict[str, None]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._refs

    def __iter__(self) -> Iterator[K]:
        return iter(self._refs)

    def find(self, key: K) -> Collection[str]:
        return self._refs.get(key, {})

    def add(self, keys: Iterable[K], ref: str) -> None:
        for key in keys:
            self._refs.setdefault(key, {})[ref] = None

    def remove(self, keys: Iterable[K], ref: str) -> None:
        for key in keys:
            refs = self._refs[key]
            del refs[ref]
            if not refs:
                del self._refs[key]


class OtherAllocators:
    """The claims that count, and the contested pools.

    Args:
        ours: the names of this scheduler.
        is_published: returns whether slices publish a pool.

    Attributes:
        contested: the contested pools.
        reasons: why each of them is not served.
    """

    def __init__(self, ours: Collection[str], is_published: Callable[[PoolKey], bool]) -> None:
        self.contested: dict[PoolKey, ContestedPool] = {}
        self.reasons: dict[PoolKey, str] = {}
        self._name = ", ".join(sorted(ours))
        self._is_published = is_published
        self._uses: dict[str, ClaimUse] = {}
        self._known_uses: dict[ClaimUse, ClaimUse] = {}
        self._our_classes, self._waiting_classes, self._foreign_classes = (_Index[str]() for _ in range(3))
        self._our_pools, self._foreign_pools = (_Index[PoolKey]() for _ in range(2))
        self._have_pools_changed = False
        self._changed_classes: set[str] = set()

    def put(self, ref: str, use: ClaimUse | None) -> None:
        """Add or replace what counts about a claim.

        Args:
            ref: `namespace/name` of the claim. `pod namespace/name` of a pod that waits for extended resources.
            use: what counts about it. None: nothing, or the object was deleted.
        """
        before = self._uses.get(ref)
        if use == before:
            return
        if use is not None:
            use = self._share(use)
        versions = [each for each in (before, use) if each is not None]
        classes = {name for each in versions for name in each.classes}
        states = {name: self._state_of(name) for name in classes}
        self._remove(ref)
        if use is not None:
            self._add(ref, use)
        changed = {name for name in classes if states[name] != self._state_of(name)}
        self._changed_classes |= changed
        pools = {pool for each in versions for pool in each.pools}
        for name in changed:
            pools.update(pool for other in self._foreign_classes.find(name) for pool in self._uses[other].pools)
        for pool in pools:
            self.check_pool(pool)
        foreign_pools = {pool for each in versions if each.allocator for pool in each.pools}
        if self._have_pools_changed or not foreign_pools.isdisjoint(self.contested):
            self._changed_classes |= classes

    def check_pool(self, pool: PoolKey) -> None:
        """Check again whether a pool is contested, because its slices or claims have changed."""
        refs = self._foreign_pools.find(pool)
        if pool not in self._our_pools:
            refs = [ref for ref in refs if any(name in self._our_classes for name in self._uses[ref].classes)]
        found = None
        if refs and self._is_published(pool):
            first = next(iter(refs))
            found = ContestedPool(self._uses[first].allocator, first)
        if found == self.contested.get(pool):
            return
        self._have_pools_changed = True
        if found is None:
            del self.contested[pool], self.reasons[pool]
        else:
            self.contested[pool] = found
            self.reasons[pool] = f"{found.allocator} allocates its devices too"
        for ref in self._foreign_pools.find(pool):
            self._changed_classes |= self._uses[ref].classes

    def take_pool_change(self) -> bool:
        """Return whether contested pools have changed since the last call."""
        changed, self._have_pools_changed = self._have_pools_changed, False
        return changed

    def take_changed_classes(self) -> Collection[str]:
        """Return the classes about which the event may have changed since the last call."""
        changed, self._changed_classes = self._changed_classes, set()
        return changed

    def find_reason(self, device_class: str) -> str:
        """Return the reason of the event about a class; empty if only one scheduler uses it."""
        if any(True for _ in self._contested_pools_of(device_class)):
            return CONTESTED_POOL
        return SHARED_CLASS if self._is_shared(device_class) else ""

    def describe(self, device_class: str) -> str:
        """Return the message of the event about a class for which `find_reason` returns a reason."""
        pools = dict.fromkeys(self._contested_pools_of(device_class))
        if pools:
            first = self.contested[next(iter(pools))]
            return (
                f"{_name_pools(pools)}: claim {first.claim} was allocated by {first.allocator}, and scheduler "
                f"{self._name} allocates from there too. It does not while such claims exist. {_ADVICE}"
            )
        waiting = next(iter(self._waiting_classes.find(device_class)))
        others = ", ".join(sorted(self._uses[waiting].waiting_for))
        return (
            f"pods of the schedulers {self._name} and {others} use this class. If both allocate devices of one "
            f"pool, two claims can get one device. {_ADVICE}"
        )

    def signs(self) -> str:
        """Return all signs of another allocator: `notice()`, and shared classes; empty if there is none."""
        shared = [name for name in self._our_classes if self._is_shared(name)]
        classes = f"pods of other schedulers also use device class {_name_some(shared)}" if shared else ""
        return "; ".join(filter(None, (self.notice(), classes)))

    def _is_shared(self, device_class: str) -> bool:
        return device_class in self._our_classes and device_class in self._waiting_classes

    def _contested_pools_of(self, device_class: str) -> Iterator[PoolKey]:
        for ref in self._foreign_classes.find(device_class):
            yield from (pool for pool in self._uses[ref].pools if pool in self.contested)

    def notice(self) -> str:
        """Return a sentence about the contested pools; empty if there is none."""
        if not self.contested:
            return ""
        allocators = " and ".join(sorted({found.allocator for found in self.contested.values()}))
        return f"{_name_pools(self.contested)}: not served, because of allocations by {allocators}"

    def _share(self, use: ClaimUse) -> ClaimUse:
        """Return one object for all claims with an equal use, because most claims are used alike."""
        if len(self._known_uses) >= _MAX_KNOWN_USES:
            self._known_uses.clear()
        return self._known_uses.setdefault(use, use)

    def _add(self, ref: str, use: ClaimUse) -> None:
        self._uses[ref] = use
        for class_index in self._class_indexes(use):
            class_index.add(use.classes, ref)
        for pool_index in self._pool_indexes(use):
            pool_index.add(use.pools, ref)

    def _remove(self, ref: str) -> None:
        use = self._uses.pop(ref, None)
        if use is not None:
            for class_index in self._class_indexes(use):
                class_index.remove(use.classes, ref)
            for pool_index in self._pool_indexes(use):
                pool_index.remove(use.pools, ref)

    def _state_of(self, device_class: str) -> list[bool]:
        return [
            device_class in index for index in (self._our_classes, self._waiting_classes, self._foreign_classes)
        ]

    def _class_indexes(self, use: ClaimUse) -> Iterator[_Index[str]]:
        if use.is_ours:
            yield self._our_classes
        if use.waiting_for:
            yield self._waiting_classes
        if use.allocator:
            yield self._foreign_classes

    def _pool_indexes(self, use: ClaimUse) -> Iterator[_Index[PoolKey]]:
        if use.is_ours:
            yield self._our_pools
        if use.allocator:
            yield self._foreign_pools


def _name_pools(pools: Collection[PoolKey]) -> str:
    names = [f"{driver}/{name}" for driver, name in pools]
    return f"resource pool{'s' if len(names) > 1 else ''} {_name_some(names)}"


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"{', '.join(names[:_MAX_SHOWN])}{more}"
