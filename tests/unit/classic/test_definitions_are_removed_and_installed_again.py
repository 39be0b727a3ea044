"""The custom resource definitions are removed with live claims: claims stay allocated, and nothing leaks."""

from dradriver.kube import CLAIMS, CONTROLLER_ALLOCATIONS, CRDS, PODS, SCHEDULING_CONTEXTS
from dradriver.kube.definitions import install_definitions
from tests.unit.classic.shelf import FINALIZER, Shelf, ShelfDriver, ShelfLab

DEFINITIONS = [f"{each.plural}.{each.group}" for each in (CONTROLLER_ALLOCATIONS, SCHEDULING_CONTEXTS)]


async def remove(lab: ShelfLab) -> None:
    for name in DEFINITIONS:
        await lab.client.delete(CRDS, name)
    await lab.until(lambda: not lab.records.items)


async def test_claims_stay_allocated_and_get_their_records_back(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
        await remove(lab)
        await install_definitions(lab.client)
        await lab.until(lambda: lab.record(claim))
        assert shelf.calls("deallocate") == []
        await lab.client.delete(CLAIMS, "claim-1", "default")
        await lab.gone()
    assert shelf.held == {}


async def test_a_claim_that_ends_without_the_definitions_is_released(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.allocated()
        await remove(lab)
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.release()
        await lab.until(lambda: (c := lab.claim()) and FINALIZER not in c.metadata.finalizers)
    assert shelf.held == {}
