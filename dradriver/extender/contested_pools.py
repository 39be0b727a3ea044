"""Do not serve pools from which another allocator allocates devices too, and report them.

`other_allocators` decides which pools are contested. This module finds out who allocated each claim:

| a claim that gets an allocation                             | was allocated by                |
|-------------------------------------------------------------|---------------------------------|
| before this scheduler was installed                         | does not count                  |
| as a plan of this process has it                            | this process                    |
| and is reserved for a pod of another scheduler              | that scheduler                  |
| and whose allocation has another field manager              | the program with this name      |

Only in the last case the claim is read again, because the caches omit `metadata.managedFields`.

If the process dies, the next process lists all claims once, in the background, and finds the contested pools
again. For the claims that it did not see being allocated, only the field manager of the allocation counts:
this process does not know the plans that wrote them, and pods of other schedulers can share a claim.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.claims.pod_claims import used_names_with_special
from dradriver.control.extended import ClassesByResource
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.scheduler.binding.binding_cycle import BindingCycle
from dradriver.extender.other_allocators import (
    OtherAllocators,
    describe_use,
    describe_wait,
    find_other_scheduler,
    scheduler_of,
    waited_for,
)
from dradriver.kube import CLAIMS, CLASSES, ChangeKind, Client, NotFound
from dradriver.model.core.meta import ObjectReference
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import Value
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["ContestedPoolController"]

_log = logging.getLogger(__name__)

_BACKOFF: Final = (0.1, 30.0)
"""The first and the longest wait, in seconds, after a claim could not be read."""


class _Key(NamedTuple):
    """What must be read or reported.

    Attributes:
        kind: `claim`: who allocated it must be read. `class`: its event may have changed. `earlier claims`: who
            allocated the claims that this process did not see being allocated must be read.
        name: `namespace/name` of the claim, or the name of the class.
    """

    kind: Literal["claim", "class", "earlier claims"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class _StatusFields(Value, frozen=True, kw_only=True):
    allocation: dict[str, Any] | None = msgspec.field(default=None, name="f:allocation")


class _Fields(Value, frozen=True, kw_only=True):
    status: _StatusFields = msgspec.field(default_factory=_StatusFields, name="f:status")


class _FieldOwner(Value, frozen=True, kw_only=True):
    """`metav1.ManagedFieldsEntry`; `time` is the time of the manager's last change."""

    manager: str = ""
    time: datetime | None = None
    fields: _Fields = msgspec.field(default_factory=_Fields, name="fieldsV1")


class _OwnedMeta(Value, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    managed_fields: list[_FieldOwner] = []


class _OwnedClaim(Value, frozen=True, kw_only=True):
    """A claim of which only the owners of its fields are read."""

    metadata: _OwnedMeta = _OwnedMeta()


class ContestedPoolController(LoopController[_Key]):
    """Finds contested pools: `async with ContestedPoolController(...)`.

    Create it before the caches are entered, and after the binding cycle.
    """

    def __init__(
        self,
        caches: Caches,
        executor: Executor,
        cycle: BindingCycle,
        metrics: ControlMetrics,
        scheduler_names: Collection[str],
        client: Client,
        installed: datetime | None,
        *,
        serves_resources: bool,
    ) -> None:
        """Create a controller that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            executor: writes the events.
            cycle: the binding cycle of this process, which does not serve the contested pools.
            metrics: shows the number of contested pools.
            scheduler_names: the names of this scheduler.
            client: the API server.
            installed: when this scheduler was installed. None: only allocations since this process leads count.
            serves_resources: whether device classes serve extended resources (KEP-5004).
        """
        self._serves_resources = serves_resources
        self._caches, self._cycle, self._client, self._installed = caches, cycle, client, installed
        self._scheduler_names = frozenset(scheduler_names)
        self._pools = PoolIndex(caches)
        self._waiting_pods = Index(caches.pods, waited_for)
        self._classes_by_resource = ClassesByResource()
        self._allocators = OtherAllocators(scheduler_names, self._is_published)
        self._earlier: dict[str, str] = {}
        """The UIDs of claims that were allocated before this process leads, until they are listed."""
        self._counted: dict[str, str] = {}
        """The UIDs of claims that another process allocated, since this process leads or by `_earlier`."""
        self._writers: dict[str, str] = {}
        """Who allocated the claims in `_counted`, as far as known; empty: an earlier leader."""
        self._reported: dict[str, str] = {}
        self._was_contested = False
        self._loop = Loop(
            "contested pools", self, executor.execute, workers=1, queue=WorkQueue[_Key](*_BACKOFF)
        )
        metrics.show_contested_pools(self._count_pools)
        caches.claims.subscribe(self._claim_changed)
        caches.pods.subscribe(self._pod_changed)
        caches.slices.subscribe(self._slice_changed)
        caches.classes.subscribe(self._class_changed)

    def explain(self) -> str:
        """Return which pools are not served, and why; empty if all are served."""
        return self._allocators.notice()

    def find_signs(self) -> str:
        """Return all signs of another allocator; empty if there is none."""
        return self._allocators.signs()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._earlier:
            self._loop.queue.add(_Key("earlier claims"))
        return self

    async def decide(self, key: _Key) -> Step:
        """Read who allocated claims, or return the step with the event about a class."""
        if key.kind != "class":
            await (self._find_manager(key.name) if key.kind == "claim" else self._find_earlier_managers())
            return Step(NextAction.DONE)
        reason, device_class = self._allocators.find_reason(key.name), self._caches.classes.items.get(key.name)
        if not reason or device_class is None:
            self._reported.pop(key.name, None)
            return Step(NextAction.DONE)
        if self._reported.get(key.name) == reason:
            return Step(NextAction.DONE)
        self._reported[key.name] = reason
        meta = device_class.metadata
        regarding = ObjectReference(
            api_version=CLASSES.api_version, kind=CLASSES.kind, name=meta.name, uid=meta.uid
        )
        message = self._allocators.describe(key.name)
        return Step(NextAction.DONE, EmitEvent(regarding, "Warning", reason, message))

    async def _find_manager(self, ref: str) -> None:
        claim = self._caches.claims.items.get(ref)
        if claim is None or ref not in self._counted or ref in self._writers:
            return
        meta = claim.metadata
        try:
            owned = await self._client.get(CLAIMS, meta.name, meta.namespace, into=_OwnedClaim)
        except NotFound:
            return
        if self._counted.get(ref) == owned.metadata.uid:
            self._writers.setdefault(ref, self._other_manager(owned))
            self._update(ref)
            self._apply()

    async def _find_earlier_managers(self) -> None:
        claims = (await self._client.list(CLAIMS, into=_OwnedClaim)).items
        for owned in claims:
            meta = owned.metadata
            ref = f"{meta.namespace}/{meta.name}"
            # A claim that was allocated again in the meantime is no earlier claim any more.
            if self._earlier.get(ref) == meta.uid and (manager := self._other_manager(owned)):
                self._counted[ref], self._writers[ref] = meta.uid, manager
                self._update(ref)
        self._earlier.clear()
        self._apply()

    def _other_manager(self, claim: _OwnedClaim) -> str:
        """Return the other program that has allocated the claim since the installation; empty if none has."""
        own, installed = self._client.field_manager, self._installed
        others = {
            owner.manager
            for owner in claim.metadata.managed_fields
            if owner.fields.status.allocation is not None
            and owner.manager != own
            and (installed is None or owner.time is None or owner.time >= installed)
        }
        return f"field manager {min(others)}" if others else ""

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        ref = claim.ref
        if new is None or new.allocation is None:
            self._forget(ref)
        elif _has_new_allocation(old, new):
            self._forget(ref)
            if not self._caches.claims.is_synced:
                if self._installed is not None:
                    self._earlier[ref] = new.metadata.uid
            elif not self._cycle.has_planned(new):
                self._counted[ref] = new.metadata.uid
        self._update(ref)
        self._apply()

    def _forget(self, ref: str) -> None:
        self._earlier.pop(ref, None)
        self._counted.pop(ref, None)
        self._writers.pop(ref, None)

    def _update(self, ref: str) -> None:
        claim = self._caches.claims.items.get(ref)
        if claim is None:
            self._allocators.put(ref, None)
            return
        pods = self._cycle.pods_of_claims.find(claim)
        if ref in self._counted:
            # The own field manager does not suffice: there may be a second scheduler of this project. The name
            # of a scheduler tells users more than a field manager. It stays when the pod is gone.
            scheduler = find_other_scheduler(claim, pods, self._scheduler_names)
            if scheduler:
                self._writers[ref] = f"scheduler {scheduler}"
            elif ref not in self._writers and any(map(self._is_published, map(_pool_of, claim.results))):
                self._loop.queue.add(_Key("claim", ref))
        use = describe_use(claim, pods, self._scheduler_names, self._writers.get(ref, ""))
        self._allocators.put(ref, use)

    def _is_published(self, pool: PoolKey) -> bool:
        return bool(self._pools.slices_of(pool))

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and _select_fields(old) == _select_fields(new):
            return
        versions = [pod for pod in (old, new) if pod is not None]
        for ref in dict.fromkeys(ref for pod in versions for ref in used_names_with_special(pod)):
            self._update(ref)
        self._update_wait(versions[0].ref)
        self._apply()

    def _update_wait(self, ref: str) -> None:
        pod = self._caches.pods.items.get(ref)
        use = describe_wait(pod, self._scheduler_names, self._classes_by_resource) if pod is not None else None
        self._allocators.put(f"pod {ref}", use)

    def _class_changed(self, _kind: ChangeKind, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        if not self._serves_resources:
            return
        before, self._classes_by_resource = (
            self._classes_by_resource,
            ClassesByResource.of(self._caches.classes.items.values()),
        )
        for resource in self._waiting_pods.counts():
            if before.class_name(resource) != self._classes_by_resource.class_name(resource):
                for pod in self._waiting_pods.find(resource):
                    self._update_wait(pod.ref)
        self._apply()

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for source in (old, new):
            if source is not None:
                self._allocators.check_pool((source.spec.driver, source.spec.pool.name))
        self._apply()

    def _apply(self) -> None:
        """Pass on what has changed."""
        if self._allocators.take_pool_change():
            self._cycle.set_unserved(self._allocators.reasons)
            is_contested = bool(self._allocators.contested)
            if is_contested and not self._was_contested:
                _log.warning("%s", self.explain())
            elif not is_contested:
                _log.info("all pools are served: no other allocator uses them any more")
            self._was_contested = is_contested
        for name in self._allocators.take_changed_classes():
            self._loop.queue.add(_Key("class", name))

    def _count_pools(self) -> Mapping[str, int]:
        return Counter(driver for driver, _ in self._allocators.contested)


def _pool_of(result: DeviceResult) -> PoolKey:
    return result.driver, result.pool


def _has_new_allocation(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    if old is None or old.allocation is None or new.allocation is None:
        return True
    return old.metadata.uid != new.metadata.uid or old.allocation.devices != new.allocation.devices


def _select_fields(pod: Pod) -> tuple[object, ...]:
    """Return the fields on which the use of the pod's claims and of its extended resources depends."""
    status = pod.status
    special = status.extended_resource_claim_status
    names = (pod.spec.resource_claims, status.resource_claim_statuses, special and special.resource_claim_name)
    return pod.metadata.uid, scheduler_of(pod), pod.finished, bool(pod.spec.node_name), names
