"""Calls of kube-scheduler run only while the process leads."""

import asyncio

import pytest

from dradriver.extender.protocol import BindArgs, Verbs
from dradriver.extender.serving.verb_calls import NotLeadingError, VerbCalls
from tests.unit.extender.serving.fakes import FakeVerbs

ARGS = BindArgs(pod_name="pod", pod_namespace="default", pod_uid="u", node="node-1")


async def bind(verbs: Verbs) -> None:
    await verbs.bind(ARGS)


@pytest.fixture
def verbs(tasks_left: None) -> FakeVerbs:
    fake = FakeVerbs()
    fake.held = asyncio.Event()
    return fake


@pytest.fixture
def calls(verbs: FakeVerbs) -> VerbCalls:
    opened = VerbCalls(lambda: "another process leads")
    opened.open(verbs)
    return opened


async def test_a_call_is_rejected_before_the_process_leads() -> None:
    with pytest.raises(NotLeadingError, match="another process leads"):
        await VerbCalls(lambda: "another process leads").run(bind)


async def test_close_waits_for_a_call_in_progress_and_rejects_new_calls(
    calls: VerbCalls, verbs: FakeVerbs
) -> None:
    call = asyncio.create_task(calls.run(bind))
    await verbs.binding.wait()
    closing = asyncio.create_task(calls.close(60))
    await asyncio.sleep(0)
    with pytest.raises(NotLeadingError):
        await calls.run(bind)
    assert verbs.held is not None
    verbs.held.set()
    await closing
    await call
    assert verbs.bound == [ARGS]


async def test_close_cancels_a_call_after_the_grace(calls: VerbCalls, verbs: FakeVerbs) -> None:
    call = asyncio.create_task(calls.run(bind))
    await verbs.binding.wait()
    await calls.close(0)
    assert verbs.canceled.is_set()
    with pytest.raises(NotLeadingError, match="another process leads"):
        await call


async def test_a_canceled_caller_ends_after_its_call(calls: VerbCalls, verbs: FakeVerbs) -> None:
    call = asyncio.create_task(calls.run(bind))
    await verbs.binding.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert verbs.canceled.is_set()
