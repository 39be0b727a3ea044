"""The API server rejects, delays or loses writes; the controller reaches the same result."""

import asyncio
from typing import Any

import pytest

import dradriver as dra
from dradriver.cluster.apiserver import Fault
from dradriver.kube import CLAIMS, PODS, Client, Conflict, PatchKind, Unavailable, object_tasks
from tests.unit.classic.shelf import Shelf, ShelfDriver, ShelfLab

FAULTS = {
    "refused": {"code": 503},
    "too many requests": {"code": 429},
    "internal error": {"code": 500},
    "conflict": {"code": 409},
    "answer lost": {"drop": True, "applied": True},
    "cut before": {"drop": True},
}
WRITES = [
    ("patch", "resourceclaims"),
    ("create", "controllerallocations"),
    ("patch", "resourceclaims/status"),
    ("delete", "controllerallocations"),
]


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_tasks, "RETRY_SECONDS", (0.01, 0.05))


@pytest.mark.parametrize("write", WRITES, ids=" ".join)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_each_write_is_repeated_or_found(
    lab: ShelfLab, shelf: Shelf, write: tuple[str, str], fault: dict[str, object]
) -> None:
    verb, resource = write
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        add_fault(lab, verb, resource, fault)
        await lab.negotiate(pod, "node-1")
        claim = await lab.allocated()
        assert shelf.held == {claim.metadata.uid: ("node-1", 1)}
        lab.server.faults.clear()
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.client.delete(CLAIMS, "claim-1", "default")
        body: dict[str, object] = {"status": {"reservedFor": []}}
        await lab.client.patch(
            *(CLAIMS, "claim-1", "default", body, PatchKind.MERGE), into=dict, subresource="status"
        )
        add_fault(lab, verb, resource, fault)
        await lab.gone()
    assert shelf.held == {}


async def test_work_goes_on_after_the_api_server_was_away(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        for verb in ("get", "patch", "create", "delete"):
            lab.server.faults.add(Fault(verb, "resourceclaims", code=503, count=20))
        await lab.negotiate(pod, "node-1")
        await lab.allocated()


async def test_claims_that_change_while_the_controller_is_away_are_released_afterwards(
    lab: ShelfLab, shelf: Shelf
) -> None:
    for name in ("deleted", "released", "cleared"):
        await lab.create_claim(name)
    pods = {name: await lab.create_pod(name, name=f"pod-{name}") for name in ("deleted", "released", "cleared")}
    async with lab.driver(ShelfDriver(shelf)):
        for pod in pods.values():
            await lab.negotiate(pod, "node-1")
        await asyncio.gather(*map(lab.allocated, pods))
    for pod in pods.values():
        await lab.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
    await lab.release("released")
    await lab.clear("cleared")
    await lab.release("deleted")
    await lab.client.delete(CLAIMS, "deleted", "default")
    async with lab.driver(ShelfDriver(shelf)):
        await asyncio.gather(lab.idle("released"), lab.idle("cleared"))
        await lab.gone("deleted")
    assert shelf.held == {}


def add_fault(lab: ShelfLab, verb: str, resource: str, fault: dict[str, object]) -> None:
    lab.server.faults.add(Fault(verb, resource, **fault))  # type: ignore[arg-type]


async def test_an_allocation_that_is_written_late_is_refused_once_the_driver_deallocates(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """The API server may still carry out a write whose answer is lost, also of a process that was killed."""
    late: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    refused: list[Conflict] = []

    class LateClient(Client):
        async def patch(self, *arguments: Any, **options: Any) -> Any:
            if options.get("subresource") == "status" and arguments[0] == CLAIMS:
                late.append((arguments, options))
                raise Unavailable("the answer is lost")
            return await super().patch(*arguments, **options)

    class Late(ShelfDriver):
        async def deallocate(self, claim: dra.RecordedClaim) -> None:
            await super().deallocate(claim)
            for arguments, options in late:
                try:
                    await lab.client.patch(*arguments, **options)
                except Conflict as error:
                    refused.append(error)

    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Late(shelf), client=LateClient):
        await lab.negotiate(pod, "node-1")
        while not late:
            await asyncio.sleep(0.01)
        await lab.negotiate(pod, "", potential=[])
        claim = await lab.idle()
    assert refused
    assert claim.metadata.annotations == {}
    assert shelf.held == {}
