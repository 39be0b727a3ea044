"""A write to a pod is stored only in the version of the pod on which the decision was based."""

from collections.abc import AsyncIterator, Callable

import pytest

from dradriver.control.runtime.actions import Action, Bind, Evict, Nominate, RecordSpecialClaim
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.kube import PODS, EventRecorder, PatchKind
from dradriver.model.core.workload import ExtendedResourceClaim, Pod, RequestMapping
from tests.unit.control.conftest import Lab, lab
from tests.unit.control.extended_pods import GPU, pod

__all__ = ["lab"]

MAPPING = RequestMapping(container_name="main", resource_name=GPU, request_name="x")
SPECIAL = ExtendedResourceClaim(resource_claim_name="special", request_mappings=[MAPPING])
WRITES: dict[str, Callable[[Pod], Action]] = {
    "the binding": lambda pod: Bind(pod, "node-1"),
    "the nomination": lambda pod: Nominate(pod, "node-1"),
    "the special claim": lambda pod: RecordSpecialClaim(pod, SPECIAL),
    "the eviction": lambda pod: Evict(pod, "Test", "test", ("Test", "test")),
}


@pytest.fixture
async def executor(lab: Lab) -> AsyncIterator[Executor]:
    caches = Caches(lab.client)
    async with EventRecorder(lab.client, "test") as recorder, caches:
        yield Executor(lab.client, caches, recorder)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_late_write_to_a_pod_that_has_changed_is_rejected(
    lab: Lab, executor: Executor, write: Callable[[Pod], Action]
) -> None:
    await lab.pods(pod("a", gpu=1))
    known = await lab.client.get(PODS, "a", "default", into=Pod)
    change = {"metadata": {"labels": {"changed": "yes"}}}
    changed = await lab.client.patch(PODS, "a", "default", change, PatchKind.MERGE, into=Pod)
    assert not await executor.execute(write(known))
    assert await lab.client.get(PODS, "a", "default", into=Pod) == changed
    assert executor._caches.pods.items["default/a"] == changed
    assert await executor.execute(write(changed))
