"""The extender negotiates with the controllers of classic claims (KEP-3063) for kube-scheduler."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.settings import SchedulerSettings
from dradriver.extender.bind_calls import BindError
from dradriver.kube import CLAIMS, CLASSES
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.classic.live_driver import LiveDriver
from tests.unit.control.conftest import Lab
from tests.unit.control.events import wait_for_event
from tests.unit.extender.conftest import NODES, Caller

A, B = "a.example.com", "b.example.com"


class Negotiation:
    """An extender, and the drivers `a.example.com` and `b.example.com`."""

    def __init__(self, caller: Caller, a: LiveDriver, b: LiveDriver) -> None:
        self.caller, self.a, self.b = caller, a, b

    async def pod(self, name: str, *classes: str) -> Pod:
        """Create a pod with a claim for each class, and wait until the extender knows them."""
        client = self.caller.lab.client
        for number, each in enumerate(classes):
            claim = builders.claim(builders.device_request(each), name=f"{name}-{number}")
            await client.create(CLAIMS, claim, "default", into=dict)
        pod = await self.caller.pod_of(name, *[f"{name}-{number}" for number in range(len(classes))])
        while not {A, B} <= self.caller.cycle._caches.classes.items.keys():
            await asyncio.sleep(0.001)
        return pod

    async def until_context(
        self, done: Callable[[Mapping[str, PodSchedulingContext]], object]
    ) -> Mapping[str, PodSchedulingContext]:
        """Wait until the extender sees the contexts as wanted."""
        cache, changed = self.caller.cycle._caches.contexts, asyncio.Event()
        stop = cache.subscribe(lambda *_: changed.set())
        while not done(cache.items):
            changed.clear()
            await changed.wait()
        stop()
        return cache.items


@pytest.fixture
async def talk(lab: Lab, settings: SchedulerSettings) -> AsyncIterator[Negotiation]:
    await install_definitions(lab.client)
    async with LiveDriver(lab.client, A) as a, LiveDriver(lab.client, B) as b:
        caller = Caller(lab, settings)
        async with caller.stack:
            await caller.start()
            yield Negotiation(caller, a, b)


def state(talk: Negotiation, pod: Pod) -> str:
    return talk.caller.verbs.explain(pod.ref).message


async def test_with_one_claim_filter_finds_nodes_and_bind_waits_for_the_allocation(talk: Negotiation) -> None:
    talk.a.is_away = True
    pod = await talk.pod("p", A)
    assert sorted((await talk.caller.filter(pod)).node_names or []) == list(NODES)
    call = asyncio.create_task(talk.caller.bind(pod, "node-2"))
    contexts = await talk.until_context(lambda contexts: pod.ref in contexts)
    spec = contexts[pod.ref].spec
    assert spec.selected_node == "node-2"
    assert sorted(spec.potential_nodes) == list(NODES), "those of filter, not only the node of bind"
    while not talk.caller.cycle._waiting_pods.awaits_drivers(pod.ref):
        await asyncio.sleep(0)
    assert not call.done()
    assert state(talk, pod) == (
        f"is being bound to node node-2 and waits for driver {A} for resourceclaim default/p-0 (round 1)"
    )
    talk.a.is_away = False
    talk.a.wake()
    await call
    await talk.caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == "node-2")
    await talk.until_context(lambda contexts: not contexts)


async def test_with_two_claims_filter_refuses_until_all_drivers_have_answered_and_then_nudges(
    talk: Negotiation,
) -> None:
    talk.b.is_away = True
    pod = await talk.pod("p", A, B)
    result = await talk.caller.filter(pod)
    waiting = "waiting for resource driver to provide information: "
    failed = result.failed_and_unresolvable_nodes or {}
    assert set(failed) == set(NODES)
    assert all(reason.startswith(waiting) for reason in failed.values())
    await talk.until_context(lambda contexts: pod.ref in contexts and contexts[pod.ref].status.resource_claims)
    while f"{waiting}driver {B} for resourceclaim default/p-1 (round 1)" not in state(talk, pod):
        await asyncio.sleep(0.001)
    talk.a.unsuitable = {"node-1"}
    talk.a.wake()
    talk.b.is_away = False
    talk.b.wake()
    await talk.caller.until_nudged("p")
    assert await talk.caller.place(pod) == "node-2"


async def test_a_refusal_of_the_driver_is_the_answer_of_bind_and_the_next_filter_excludes_the_node(
    talk: Negotiation,
) -> None:
    pod = await talk.pod("p", A)
    talk.a.unsuitable = {"node-1"}
    assert (await talk.caller.filter(pod)).node_names
    with pytest.raises(
        BindError, match=rf"node node-1 \(unsuitable\): driver {A} for resourceclaim default/p-0"
    ):
        await talk.caller.bind(pod, "node-1")
    assert (await talk.caller.filter(pod)).node_names == ["node-2"]
    await talk.caller.bind(pod, "node-2")


async def test_a_pod_without_a_suitable_node_is_nudged_when_a_driver_answers_differently(
    talk: Negotiation,
) -> None:
    pod = await talk.pod("p", A)
    talk.a.unsuitable = set(NODES)
    assert (await talk.caller.filter(pod)).node_names
    with pytest.raises(BindError):
        await talk.caller.bind(pod, "node-1")
    assert not (await talk.caller.filter(pod)).node_names
    await talk.until_context(lambda contexts: contexts[pod.ref].spec.selected_node == "")
    talk.a.unsuitable = {"node-1"}
    talk.a.wake()
    await talk.caller.until_nudged("p")
    assert await talk.caller.place(pod) == "node-2"


async def test_a_structured_claim_and_a_classic_claim_in_one_pod(talk: Negotiation) -> None:
    talk.a.is_away = True
    pod = await talk.pod("p", A, builders.CLASS)
    nodes = (await talk.caller.filter(pod)).node_names
    assert nodes
    call = asyncio.create_task(talk.caller.bind(pod, nodes[0]))
    await talk.until_context(lambda contexts: pod.ref in contexts)
    structured = talk.caller.lab.seen.claims.items["default/p-1"]
    assert structured.allocation is None, "it is written after the classic claim"
    talk.a.is_away = False
    talk.a.wake()
    await call
    assert talk.caller.lab.seen.claims.items["default/p-1"].allocation is not None


async def test_a_process_that_starts_during_the_wait_continues_it(talk: Negotiation) -> None:
    talk.a.is_away = True
    pod = await talk.pod("p", A)
    nodes = (await talk.caller.filter(pod)).node_names
    assert nodes
    call = asyncio.create_task(talk.caller.bind(pod, nodes[1]))
    await talk.until_context(lambda contexts: pod.ref in contexts)
    await talk.caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await talk.caller.filter(pod)).node_names == [nodes[1]], "the selected node stays"
    call = asyncio.create_task(talk.caller.bind(pod, nodes[1]))
    talk.a.is_away = False
    talk.a.wake()
    await call


class TestShortDeadline:
    @pytest.fixture
    def settings(self) -> SchedulerSettings:
        return SchedulerSettings(binding_timeout=timedelta(seconds=0.5), pod_backoff=(0.01, 0.02))

    async def test_a_driver_that_never_allocates_ends_the_call_at_the_deadline(self, talk: Negotiation) -> None:
        talk.a.is_away = True
        pod = await talk.pod("p", A)
        assert (await talk.caller.filter(pod)).node_names
        with pytest.raises(
            BindError, match=f"timeout: waiting for resource driver to allocate resource: driver {A}"
        ):
            await talk.caller.bind(pod, "node-1")


async def test_the_nominated_node_asked_alone_does_not_change_the_context(talk: Negotiation) -> None:
    pod = await talk.pod("p", A, B)
    await talk.caller.filter(pod)
    contexts = await talk.until_context(lambda contexts: pod.ref in contexts)
    await talk.caller.until_nudged("p")
    before = contexts[pod.ref].spec
    nominated = replace(pod, status=replace(pod.status, nominated_node_name="node-1"))
    talk.a.unsuitable = {"node-1"}
    talk.a.wake()
    await talk.until_context(
        lambda contexts: any(each.unsuitable_nodes for each in contexts[pod.ref].status.resource_claims)
    )
    assert not (await talk.caller.filter(nominated, ["node-1"])).node_names
    assert talk.caller.cycle._context_writes == {}
    assert contexts[pod.ref].spec.selected_node == before.selected_node == ""
    assert (await talk.caller.filter(nominated)).node_names == ["node-2"]


async def test_an_event_names_the_controller_of_a_class_that_has_never_answered(
    lab: Lab, settings: SchedulerSettings
) -> None:
    await install_definitions(lab.client)
    absent = builders.controller_class("licenses", controller="license.example.com")
    await lab.client.create(CLASSES, absent, into=dict)
    caller = Caller(lab, dataclasses.replace(settings, binding_timeout=timedelta(seconds=2)))
    async with caller.stack:
        await caller.start()
        claim = builders.claim(builders.device_request("licenses"), name="p-0")
        await lab.client.create(CLAIMS, claim, "default", into=dict)
        await caller.pod_of("p", "p-0")
        event = await wait_for_event(lab.client, "license.example.com (class licenses)")
    assert (event.reason, event.involved_object.name) == ("ControllerNeverAnswered", "p")
