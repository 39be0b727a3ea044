import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry

from dradriver.control.queueing.metrics import WorkQueueMetrics
from dradriver.control.runtime.work_queue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(0.001, 0.004)


async def test_a_queued_key_is_not_added_twice(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_key_that_is_added_while_it_is_processed_is_queued_again(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    again = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not again.done(), "never two workers on one key"
    queue.done("a")
    assert await again == "a"


async def test_add_ends_the_wait_of_a_rate_limited_key(queue: WorkQueue[str]) -> None:
    queue.add_rate_limited("a")
    queue.add_rate_limited("a")
    assert await queue.get() == "a"
    queue.done("a")
    slow = WorkQueue[str](3600, 3600)
    slow.add_rate_limited("a")
    slow.add("a")
    assert await slow.get() == "a"
    slow.done("a")
    slow.close()


async def test_add_rate_limited_does_not_change_a_queued_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_rate_limited("a")
    assert await queue.get() == "a"
    queue.done("a")
    queue.add("b")
    assert await queue.get() == "b"


async def test_a_closed_queue_has_no_timer(queue: WorkQueue[str]) -> None:
    queue.add_rate_limited("a")
    queue.close()
    queue.add("b")
    assert await queue.get() == "b"


async def test_a_delayed_key_is_added_at_the_earlier_of_two_times() -> None:
    queue: WorkQueue[str] = WorkQueue(1.0, 1.0)
    queue.add_after("key", 3600)
    queue.add_after("key", 0)
    queue.add_after("key", 3600)
    assert len(queue.delayed) == 1
    assert await queue.get() == "key"
    assert (len(queue.queued), len(queue.delayed)) == (0, 0)


async def test_unfinished_work_is_measured_while_it_lasts(
    queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum over all workers, and the longest; a queued key does not count."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    registry = CollectorRegistry()
    queue.register_metrics(WorkQueueMetrics(registry), "keys")

    def seconds() -> tuple[float | None, float | None]:
        unfinished = registry.get_sample_value("workqueue_unfinished_work_seconds", {"name": "keys"})
        return unfinished, registry.get_sample_value(
            "workqueue_longest_running_processor_seconds", {"name": "keys"}
        )

    assert seconds() == (0, 0)
    for key in "abc":
        queue.add(key)
    now += 50
    assert seconds() == (0, 0)
    await queue.get()
    now += 2
    await queue.get()
    now += 1
    assert seconds() == (4, 3)
    queue.add("a")
    queue.done("a")
    assert seconds() == (1, 1)
