"""Calls for one pod and one node share a result, and a call without callers is abandoned."""

import asyncio

import pytest

from dradriver.extender.bind_calls import BindCalls, BindError


class Started:
    """Calls of one pod, and a record of their work."""

    def __init__(self) -> None:
        self.abandoned: list[str] = []
        self.started = 0
        self.calls = BindCalls(self.abandoned.append)

    def _start(self, _key: str) -> None:
        self.started += 1

    async def call(self, node: str = "node-1", uid: str = "uid-1") -> asyncio.Task[None]:
        """Call, and return when the call waits."""
        task = asyncio.create_task(self.calls.wait("a", uid, node, self._start))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def pod() -> Started:
    return Started()


async def test_the_first_caller_starts_the_work_and_all_get_the_result(pod: Started) -> None:
    tasks = [await pod.call() for _ in range(3)]
    assert pod.started == 1
    assert pod.calls.is_for("a", "uid-1", "node-1")
    pod.calls.succeed("a")
    await asyncio.gather(*tasks)
    assert "a" not in pod.calls
    assert not pod.abandoned


async def test_all_callers_get_the_reason_of_a_failure(pod: Started) -> None:
    tasks = [await pod.call() for _ in range(2)]
    pod.calls.fail("a", "no device")
    for task in tasks:
        with pytest.raises(BindError, match="no device"):
            await task
    assert len(pod.calls) == 0


@pytest.mark.parametrize(("node", "uid"), [("node-2", "uid-1"), ("node-1", "uid-2")])
async def test_a_call_for_another_node_or_pod_is_refused(pod: Started, node: str, uid: str) -> None:
    first = await pod.call()
    with pytest.raises(BindError, match=r"pod a \(uid uid-1\) is being bound to node node-1"):
        await (await pod.call(node, uid))
    assert not pod.calls.is_for("a", uid, node)
    pod.calls.succeed("a")
    await first


async def test_a_call_is_abandoned_when_its_last_caller_has_gone(pod: Started) -> None:
    tasks = [await pod.call() for _ in range(2)]
    tasks[0].cancel()
    await asyncio.sleep(0)
    assert not pod.abandoned
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert pod.abandoned == ["a"]
    assert (pod.calls.node("a"), pod.calls.uid("a")) == (None, "")


async def test_the_result_of_an_abandoned_call_is_not_that_of_the_next_call(pod: Started) -> None:
    (await pod.call()).cancel()
    await asyncio.sleep(0)
    second = await pod.call("node-2")
    assert pod.started == 2
    assert not second.done()
    pod.calls.succeed("a")
    await second


async def test_a_caller_that_goes_after_the_result_abandons_nothing(pod: Started) -> None:
    task = await pod.call()
    pod.calls.fail("a", "no device")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not pod.abandoned


async def test_a_result_without_a_call_is_ignored(pod: Started) -> None:
    pod.calls.succeed("a")
    pod.calls.fail("a", "no device")
    assert "a" not in pod.calls
