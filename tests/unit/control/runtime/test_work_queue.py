import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry

from dradriver.control.queueing.metrics import QueueMetrics
from dradriver.control.runtime.work_queue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(0.001, 0.004)


async def test_a_key_that_waits_already_is_not_added_twice(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_key_that_is_worked_on_comes_again_afterwards(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    again = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not again.done(), "never two workers on one key"
    queue.done("a")
    assert await again == "a"


async def test_later_means_after_a_wait_and_now_cuts_it_short(queue: WorkQueue[str]) -> None:
    queue.add_later("a")
    queue.add_later("a")
    assert await queue.get() == "a"
    queue.done("a")
    patient = WorkQueue[str](3600, 3600)
    patient.add_later("a")
    patient.add("a")
    assert await patient.get() == "a"
    patient.done("a")
    patient.close()


async def test_adding_for_later_what_is_in_line_changes_nothing(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_later("a")
    assert await queue.get() == "a"
    queue.done("a")
    queue.add("b")
    assert await queue.get() == "b"


async def test_a_closed_queue_leaves_no_timer_behind(queue: WorkQueue[str]) -> None:
    queue.add_later("a")
    queue.close()
    queue.add("b")
    assert await queue.get() == "b"


async def test_a_key_that_is_put_off_comes_at_the_earlier_of_two_times() -> None:
    queue: WorkQueue[str] = WorkQueue(1.0, 1.0)
    queue.add_after("key", 3600)
    queue.add_after("key", 0)
    queue.add_after("key", 3600)
    assert len(queue.put_off) == 1
    assert await queue.get() == "key"
    assert (queue.ready, len(queue.put_off)) == (0, 0)


async def test_work_that_is_not_finished_is_timed_while_it_lasts(
    queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum over all workers, and the oldest of them; a key in line counts for neither."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    registry = CollectorRegistry()
    queue.count(QueueMetrics(registry), "keys")

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
