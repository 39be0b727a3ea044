"""The objects of the cluster as one process of a controller sees them, and its unfinished attempts."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from dradriver.aio.key_locks import KeyLocks
from dradriver.classic.steps.claim_steps import ClaimView
from dradriver.classic.steps.pod_steps import (
    NegotiatedClaim,
    find_node_to_allocate,
    find_pending,
    has_stale_answers,
    is_negotiating,
)
from dradriver.errors import InvalidObjectError
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    PODS,
    SCHEDULING_CONTEXTS,
    Cache,
    ChangeKind,
    Client,
    Forbidden,
    NotFound,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import ControlledClaim, list_class_names, resolve
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.parameters import read_class_parameters
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["Attempt", "ControllerState"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An unfinished attempt to allocate a claim.

    Attributes:
        node: the selected node; empty for an immediate claim.
        pod: `namespace/name` of the pod; empty for an immediate claim.
        is_written: whether this process has sent an allocation, which the API server may have stored.
    """

    node: str
    pod: str
    is_written: bool = False


class ControllerState:
    """The state of one process; `async with state.watch()` lists and watches the objects.

    Nothing here must survive the process: the next one releases the claims whose allocation was begun.

    Args:
        client: the API server.
        controller: the name of the controller.
        lease: `namespace/name` of the Lease of the process; empty if there is none.

    Attributes:
        claims, classes, pods, contexts, records: caches of the objects.
        attempts: the unfinished attempts of this process, by UID of the claim.
        locks: by UID of the claim. A task holds the lock while a method of the driver works on the claim.
        settled: UIDs of claims whose allocation this process has cleared. No earlier write can allocate them.
        withdrawn: UIDs of claims that others have allocated while this process worked on them.
        changes: how often this process has allocated or released a claim.
    """

    def __init__(self, client: Client, controller: str, lease: str) -> None:
        self.controller = controller
        self.lease = lease
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.classes = Cache(client, CLASSES, DeviceClass)
        self.pods = Cache(client, PODS, Pod)
        self.contexts = Cache(client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        self.records = Cache(client, CONTROLLER_ALLOCATIONS, ControllerAllocation)
        self.attempts: dict[str, Attempt] = {}
        self.settled: set[str] = set()
        self.withdrawn: set[str] = set()
        self.locks = KeyLocks()
        self.changes = 0
        self._refs: dict[str, str] = {}  # `namespace/name` of each claim, by UID
        self._resolved: dict[str, ControlledClaim | InvalidObjectError | None] = {}  # by UID of the claim
        self._records: dict[str, str] = {}  # the key of each record of this controller, by UID of the claim
        self._used_by_pod: dict[str, Collection[str]] = {}
        self._pods_using: defaultdict[str, set[str]] = defaultdict(set)
        self.claims.subscribe(self._index_claim)
        self.classes.subscribe(lambda *_: self._resolved.clear())
        self.records.subscribe(self._index_record)
        self.contexts.subscribe(self._index_context)
        self.pods.subscribe(self._index_pod)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """List and watch the objects; yields when all lists have been read."""
        async with AsyncExitStack() as stack:
            # The kinds have no common type, so they are entered one by one. All lists run at the same time.
            await stack.enter_async_context(self.claims)
            await stack.enter_async_context(self.classes)
            await stack.enter_async_context(self.pods)
            await stack.enter_async_context(self.contexts)
            await stack.enter_async_context(self.records)
            for cache in (self.claims, self.classes, self.pods, self.contexts, self.records):
                await cache.wait_synced()
            yield

    @property
    def problem(self) -> str:
        """Return why a collection has not been read yet, or is not current; empty if all are."""
        for cache in (self.claims, self.classes, self.pods, self.contexts, self.records):
            if cache.problem is not None:
                return str(cache.problem)
        return ""

    @property
    def is_unavailable(self) -> bool:
        """Return whether the cluster does not have classic DRA, or the process has no permissions for it."""
        problems = [cache.problem for cache in (self.contexts, self.records)]
        return any(isinstance(each, NotFound | Forbidden) for each in problems)

    def uids(self) -> set[str]:
        """Return the UIDs of all claims that exist, or that have a record of this controller."""
        return {*self._refs, *self._records}

    def claim(self, uid: str) -> ResourceClaim | None:
        """Return the claim with a UID; None if there is none."""
        return self.claims.items.get(self._refs.get(uid, ""))

    def record(self, uid: str) -> ControllerAllocation | None:
        """Return the record of this controller for a claim; None if there is none."""
        return self.records.items.get(self._records.get(uid, ""))

    def has_task(self, uid: str) -> bool:
        """Return whether a task allocates or releases the claim, or will do so."""
        claim = self.claim(uid)
        is_own = claim is not None and finalizer(self.controller) in claim.metadata.finalizers
        return is_own or self.record(uid) is not None or uid in self.attempts

    def view(self, uid: str) -> ClaimView:
        """Return all that decides about a claim."""
        claim, attempt = self.claim(uid), self.attempts.get(uid)
        view = ClaimView(
            self.controller, self.lease, uid, claim, self.record(uid), is_seen_withdrawn=uid in self.withdrawn
        )
        if claim is None:
            return view
        nodes = frozenset(self._selected_nodes(claim)) if attempt is not None else frozenset[str]()
        node = attempt.node if attempt is not None else None
        try:
            controlled, problem = self._resolve(claim), ""
        except InvalidObjectError as error:
            controlled, problem = None, str(error) if self._names_own_class(claim) else ""
        is_overtaken = attempt is not None and not attempt.is_written and claim.allocation is not None
        return replace(
            view,
            controlled=controlled,
            problem=problem,
            attempt=node,
            wanted=nodes,
            is_seen_withdrawn=view.is_seen_withdrawn or is_overtaken,
        )

    def _resolve(self, claim: ResourceClaim) -> ControlledClaim | None:
        """Return how this controller allocates the claim; None if it does not.

        The result is kept until a class changes, because the spec of a claim is immutable.

        Raises:
            InvalidObjectError: the claim or its class is wrong.
        """
        uid = claim.metadata.uid
        if uid not in self._refs:
            return self._read_classes(claim)
        if uid not in self._resolved:
            try:
                self._resolved[uid] = self._read_classes(claim)
            except InvalidObjectError as error:
                self._resolved[uid] = error
        known = self._resolved[uid]
        if isinstance(known, InvalidObjectError):
            raise known
        return None if known is None else replace(known, claim=claim)

    def _read_classes(self, claim: ResourceClaim) -> ControlledClaim | None:
        controlled = resolve(claim, self.classes.items)
        return controlled if controlled is not None and controlled.controller == self.controller else None

    def _resolve_valid(self, claim: ResourceClaim) -> ControlledClaim | None:
        try:
            return self._resolve(claim)
        except InvalidObjectError:
            return None

    def pods_using(self, claim_ref: str) -> Collection[str]:
        """Return the keys of the contexts of the pods that use a claim, by `namespace/name` of the claim."""
        return self._pods_using.get(claim_ref, ())

    def attempts_to_check(self, ref: str) -> list[str]:
        """Return the UIDs of the claims whose attempt may not be wanted any more after a change of a pod.

        An attempt that its own pod does not want any more goes on as long as another pod wants it.

        Args:
            ref: `namespace/name` of the pod.
        """
        return [
            uid
            for uid, attempt in self.attempts.items()
            if attempt.pod and (attempt.pod == ref or not self._is_selected(attempt))
        ]

    def _is_selected(self, attempt: Attempt) -> bool:
        negotiation = self.negotiation(attempt.pod)
        return (
            negotiation is not None and find_node_to_allocate(negotiation[0], self.controller) == attempt.node
        )

    def negotiation(self, ref: str) -> tuple[PodSchedulingContext, Pod] | None:
        """Return the context of a pod and the pod; None if the pod needs no claims any more."""
        context, pod = self.contexts.items.get(ref), self.pods.items.get(ref)
        if context is None or pod is None or not is_negotiating(context, pod):
            return None
        return context, pod

    def pending(self, pod: Pod) -> list[NegotiatedClaim]:
        """Return the claims of a pod that this controller must allocate, without those of a rival."""
        found = find_pending(pod, self.claims.items, self.controller, self._resolve_valid)
        return [each for each in found if not self._has_rival(each)]

    def has_stale_answers(
        self, context: PodSchedulingContext, pod: Pod, pending: Sequence[NegotiatedClaim]
    ) -> bool:
        """Return whether this controller has answered about a claim that it does not allocate any more."""
        return has_stale_answers(context, pod, self.claims.items, pending, self.controller)

    def _has_rival(self, claim: NegotiatedClaim) -> bool:
        record = self.record(claim.uid)
        return ClaimView(self.controller, self.lease, claim.uid, record=record).has_rival

    def _names_own_class(self, claim: ResourceClaim) -> bool:
        return any(self._is_own_class(name) for name in list_class_names(claim))

    def _is_own_class(self, name: str) -> bool:
        device_class = self.classes.items.get(name)
        if device_class is None:
            return False
        try:
            entry = read_class_parameters(device_class)
        except InvalidObjectError:
            return False  # the name of its controller cannot be trusted
        return entry is not None and entry.controller_name == self.controller

    def _selected_nodes(self, claim: ResourceClaim) -> Iterator[str]:
        for ref in self.pods_using(claim.ref):
            negotiation = self.negotiation(ref)
            if negotiation is None:
                continue
            if node := find_node_to_allocate(negotiation[0], self.controller):
                yield node

    def _index_claim(self, _: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None:
            self._refs.pop(old.metadata.uid, None)
            if new is None or new.metadata.uid != old.metadata.uid:
                self._resolved.pop(old.metadata.uid, None)
        if new is not None:
            self._refs[new.metadata.uid] = new.ref

    def _index_record(
        self, _: ChangeKind, old: ControllerAllocation | None, new: ControllerAllocation | None
    ) -> None:
        if old is not None:
            self._records.pop(old.spec.claim_uid, None)
        if new is not None and new.spec.controller_name == self.controller:
            self._records[new.spec.claim_uid] = new.ref

    def _index_context(
        self, _: ChangeKind, old: PodSchedulingContext | None, new: PodSchedulingContext | None
    ) -> None:
        if (each := new or old) is not None:
            self._index(each.ref)

    def _index_pod(self, _: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if (each := new or old) is not None:
            self._index(each.ref)

    def _index(self, ref: str) -> None:
        for used in self._used_by_pod.pop(ref, ()):
            self._pods_using[used].discard(ref)
            if not self._pods_using[used]:
                del self._pods_using[used]
        pod = self.pods.items.get(ref)
        if pod is None or ref not in self.contexts.items:
            return
        names = (pod.claim_name(each) for each in pod.spec.resource_claims)
        self._used_by_pod[ref] = {f"{pod.metadata.namespace}/{name}" for name in names if name}
        for used in self._used_by_pod[ref]:
            self._pods_using[used].add(ref)
