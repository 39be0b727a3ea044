"""An API server in memory with versions, faults and watches, and an extender that uses it."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import is_reserved_for, used_names
from dradriver.control.conflicts.controller import DoubleAllocationController
from dradriver.control.runtime import actions
from dradriver.control.runtime.actions import Action
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import NUDGE_ANNOTATION
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.cycle import ExtenderCycle
from dradriver.kube import Cache
from dradriver.kube.errors import ApiError, Conflict, Invalid, TooManyRequests, Unavailable
from dradriver.kube.watch_events import Head, WatchEvent, WatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.world import World

__all__ = ["PROFILE", "Api", "Extender"]

PROFILE = "dradriver"
_KINDS = ("pods", "claims", "nodes", "slices", "classes", "templates")
_PAUSES: Final = (0.1, 5.0)
"""The waits of `kube.cache` between two attempts to watch."""
_CLIENT_SECONDS: Final = 30.0
"""Time limit of a request without an answer (`Client.connect`)."""
_BINDING_TIMEOUT: Final = timedelta(seconds=60)
_BY_VERSION: Final = (
    actions.AddFinalizer, actions.Allocate, actions.Reserve, actions.Release, actions.RemoveFinalizer,
)  # fmt: skip


class Api:
    """The objects of a `World`. Each change gets a version, is checked against the laws, and is watched.

    Attributes:
        world: the objects.
        fault_rate: the rate of requests that fail.
        is_away: no request gets an answer, and all watches are cut.
        cuts_watches: each watch is cut all the time. An event arrives when the watch is open again.
        storm: what nine requests of ten get instead of an answer; None: no error. `Conflict` is answered by a
            new read, as in `control.runtime.executor`.
        delays: the seconds until a request arrives, if requests fail.
        stores_late: a write of a killed process that was on its way may be stored up to 10 s later. Then two
            claims may have one device for some time, but the pod of only one of them may be bound.
        late_writes: the tasks that store these writes.
        watchers: receive each change: kind of the objects, key, the object before and after it.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.fault_rate = 0.0
        self.is_away = False
        self.cuts_watches = False
        self.storm: type[ApiError] | None = None
        self.delays = [0, 0, 0.001, 0.1]
        self.stores_late = False
        self.late_writes: list[asyncio.Task[None]] = []
        self.watchers: list[Callable[[str, str, Any, Any], None]] = []
        self.version = 0
        self._known: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
        self.commit()

    def objects(self, kind: str) -> Mapping[str, Any]:
        found = getattr(self.world, kind)
        return found if isinstance(found, dict) else {each.metadata.name: each for each in found}

    def commit(self) -> None:
        """Give each changed object a version, check the laws, and report the changes."""
        changes = []
        for kind in _KINDS:
            before, after = self._known[kind], dict(self.objects(kind))
            for key in sorted(before.keys() - after.keys()):
                self.version += 1
                meta = replace(before[key].metadata, resource_version=str(self.version))
                changes.append((kind, key, replace(before[key], metadata=meta), None))
            for key, each in after.items():
                if before.get(key) is not each:
                    self.version += 1
                    meta = replace(each.metadata, resource_version=str(self.version))
                    after[key] = replace(each, metadata=meta)
                    changes.append((kind, key, before.get(key), after[key]))
            self._known[kind] = after
            found = getattr(self.world, kind)
            if isinstance(found, dict):
                found.update(after)
            else:
                found[:] = after.values()
        for change in changes:
            self._check(*change)
            for watcher in list(self.watchers):
                watcher(*change)

    def _check(self, kind: str, key: str, _old: Any, new: Any) -> None:
        if self.stores_late or (kind == "claims" and new is not None):
            bound = {ref for pod in self.world.pods.values() if pod.spec.node_name for ref in used_names(pod)}
            held = [
                str(result.id)
                for ref, claim in self.world.claims.items()
                for result in claim.results
                if ref in bound or not self.stores_late
            ]
            assert len(held) == len(set(held)), f"{key}: a device has two claims: {held}"
        for pod in self.world.pods.values():
            if pod.spec.node_name and not pod.finished:
                for ref in used_names(pod):
                    claim = self.world.claims.get(ref)
                    assert claim is not None, f"{pod.ref} runs without {ref}"
                    assert claim.allocation is not None, f"{pod.ref} runs without the devices of {ref}"
                    assert is_reserved_for(claim, pod), f"{pod.ref} runs without a reservation of {ref}"

    def write(self, action: Action) -> bool:
        """Carry out a write; False if the objects have changed."""
        if isinstance(action, actions.LookUpPlan | actions.LookUpPod | actions.EmitEvent):
            return True
        if not self._is_current(action):
            return False
        if isinstance(action, actions.Bind):
            action = actions.Bind(self.world.pods[action.pod.ref], action.node)
        if isinstance(action, actions.Nudge):
            self._nudge(action.pod.ref)
        else:
            self.world.apply(action)
        self.commit()
        return True

    def write_late(self, action: Action) -> None:
        """Carry out a write of a killed process later, if its preconditions still hold then.

        A binding or a release is not stored late: if the pod or the claim has not changed meanwhile, nothing
        prevents the write, and the present leader can only report that a bound pod has no devices.
        """

        async def store() -> None:
            await asyncio.sleep(self.chance.uniform(0, 10))
            self.write(action)

        if self.stores_late and not isinstance(action, actions.Bind | actions.Release):
            self.late_writes.append(asyncio.create_task(store()))

    def _is_current(self, action: Action) -> bool:
        """Return whether the preconditions of a write hold."""
        claim: ResourceClaim | None = getattr(action, "claim", None)
        pod: Pod | None = getattr(action, "pod", None)
        if isinstance(action, actions.CreateClaim):
            return action.claim.ref not in self.world.claims
        if claim is not None:
            stored = self.world.claims.get(claim.ref)
            if stored is None or stored.metadata.uid != claim.metadata.uid:
                return False
            is_same = stored.metadata.resource_version == claim.metadata.resource_version
            return is_same or not isinstance(action, _BY_VERSION)
        if pod is None:
            return True
        current = self.world.pods.get(pod.ref)
        if current is None or current.metadata.uid != pod.metadata.uid:
            return False
        is_same = current.metadata.resource_version == pod.metadata.resource_version
        return is_same or isinstance(action, actions.Nudge)

    def _nudge(self, ref: str) -> None:
        pod = self.world.pods[ref]
        meta = replace(pod.metadata, annotations={NUDGE_ANNOTATION: str(self.version)})
        self.world.pods[ref] = replace(pod, metadata=meta)


class Extender:
    """A process of the extender; `kill` ends it at any await."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._chance = api.chance
        self.caches = Caches(cast(Any, None))  # `_watch` fills the caches
        self.cycle = ExtenderCycle(
            self.caches,
            cast(Any, self),  # the cycle only calls `execute`
            SchedulerSettings(pod_backoff=(0.01, 0.1), binding_timeout=_BINDING_TIMEOUT),
            metrics := ControlMetrics(PROFILE),
            [PROFILE],
        )
        self._conflicts = DoubleAllocationController(
            self.caches, self.cycle.allocations, cast(Any, self), self.cycle.is_binding, metrics
        )
        self._events: dict[str, asyncio.Queue[WatchEvent[Any]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._calls: set[asyncio.Task[Any]] = set()
        self.is_alive = False

    async def start(self) -> None:
        """Read all objects, and begin to work. While the API server is away, the process waits for it."""
        while self._api.is_away:
            await asyncio.sleep(_PAUSES[0])
        clock = asyncio.get_running_loop().time
        self.cycle._nominations._clock = clock
        self.cycle._attempts.now = clock  # type: ignore[method-assign]
        for kind in _KINDS:
            self._events[kind] = asyncio.Queue()
            cache: Cache[Any] = getattr(self.caches, kind)
            self._list(kind, cache)
            self._tasks.append(asyncio.create_task(self._deliver(kind, cache, self._events[kind])))
        self._api.watchers.append(self._watch)
        await self._conflicts.__aenter__()
        await self.cycle.__aenter__()
        self.is_alive = True

    async def kill(self) -> None:
        """End at once: no call is answered, and no write follows."""
        self.is_alive = False
        with suppress(ValueError):
            self._api.watchers.remove(self._watch)
        for task in [*self._tasks, *self._calls]:
            task.cancel()
        await self.cycle.__aexit__(None, None, None)
        await self._conflicts.__aexit__(None, None, None)
        await asyncio.gather(*self._tasks, *self._calls, return_exceptions=True)

    async def call(self, work: Any) -> Any:
        """Run a verb. If the process is killed, the connection breaks."""
        if not self.is_alive:
            work.close()
            raise ConnectionError
        task = asyncio.create_task(work)
        self._calls.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.is_alive:
                raise
            raise ConnectionError from None
        finally:
            task.cancel()
            self._calls.discard(task)

    def _watch(self, kind: str, key: str, old: Any, new: Any) -> None:
        meta = (new or old).metadata
        version = meta.resource_version
        head = Head(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=version)
        event = WatchKind.DELETED if new is None else WatchKind.MODIFIED
        self._events[kind].put_nowait(WatchEvent(event, head, new or old))

    def _list(self, kind: str, cache: Cache[Any]) -> None:
        cache._resource_version = str(self._api.version)
        cache._replace(dict(self._api.objects(kind)))

    async def _deliver(self, kind: str, cache: Cache[Any], events: "asyncio.Queue[WatchEvent[Any]]") -> None:
        """Deliver the events of a watch, some of them late; at times the watch is cut and too old (410)."""
        while True:
            event = await events.get()
            if self._api.is_away or self._api.cuts_watches:
                await asyncio.sleep(self._chance.uniform(*_PAUSES))
                while self._api.is_away:
                    await asyncio.sleep(self._chance.uniform(*_PAUSES))
                if self._chance.random() < 0.5:  # the watch is too old
                    while not events.empty():
                        events.get_nowait()
                    self._list(kind, cache)
                    continue
            if self._api.fault_rate and self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.choice([0.001, 0.1, 3.0]))
                if self._chance.random() < 0.3:
                    while not events.empty():
                        events.get_nowait()
                    self._list(kind, cache)
                    continue
            cache._apply(event)

    async def execute(self, action: Action) -> bool:
        """Carry out an action as `control.runtime.executor` does; it may fail, or its answer may be lost."""
        api, rate = self._api, self._api.fault_rate
        if api.is_away:
            await asyncio.sleep(self._chance.choice([0.001, _CLIENT_SECONDS]))
            raise Unavailable("away")
        is_conflict = False
        if api.storm is not None and self._chance.random() < 0.9:
            is_conflict = api.storm is Conflict
            if not is_conflict:
                raise api.storm("fault")
        await self._arrive(action)
        fails = self._chance.random() < rate
        if fails and self._chance.random() < 0.5:
            raise self._chance.choice([Unavailable, TooManyRequests, Invalid])("fault", status=500)
        done = not is_conflict and api.write(action)
        await asyncio.sleep(self._chance.choice([0, 0.001, 0.1]) if rate else 0)
        if fails:
            raise Unavailable("no answer")
        if not (done and isinstance(action, actions.Bind)):
            self._read_back(action)
        return done

    async def _arrive(self, action: Action) -> None:
        """Wait until a request arrives at the API server, which may be after the end of this process."""
        try:
            await asyncio.sleep(self._chance.choice(self._api.delays) if self._api.fault_rate else 0)
        except asyncio.CancelledError:
            self._api.write_late(action)
            raise

    def _read_back(self, action: Action) -> None:
        """Update the caches with the objects of an action."""
        world = self._api.world
        listed = action.claims if isinstance(action, actions.LookUpPlan) else ()
        for claim in (*listed, getattr(action, "claim", None)):
            if claim is not None:
                self._refresh(self.caches.claims, claim, world.claims.get(claim.ref))
        pod: Pod | None = getattr(action, "pod", None)
        if isinstance(action, actions.LookUpPod):
            pod = self.caches.pods.items.get(f"{action.namespace}/{action.name}")
        if pod is not None:
            self._refresh(self.caches.pods, pod, world.pods.get(pod.ref))

    @staticmethod
    def _refresh(cache: Cache[Any], known: Any, current: Any) -> None:
        if current is None:
            cache.apply_deleted(known)
        else:
            cache.apply_written(current)


def pod_of_profile(name: str, claims: tuple[str, ...], templates: tuple[str, ...]) -> Pod:
    """Return a pod of the extender's profile."""
    made = builders.pod(*claims, name=name, templates=templates)
    meta = replace(made.metadata, creation_timestamp=datetime.now(UTC))
    return replace(made, metadata=meta, spec=replace(made.spec, scheduler_name=PROFILE))
