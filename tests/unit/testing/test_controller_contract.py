"""`ControllerContract` passes for a correct controller driver, and finds the defects of others."""

from collections.abc import Callable, Mapping, Sequence

import pytest

import dradriver as dra
from dradriver.testing import ControllerContract, ControllerHarness
from tests.unit.classic.shelf import Shelf, ShelfDriver, SlotClaim, SlotClass


class TestContract(ControllerContract):
    class_config = SlotClass(color="red")
    claim_config = SlotClaim(slots=3)

    @pytest.fixture(autouse=True)
    def _shelf(self) -> None:
        self.shelf = Shelf()

    def make_driver(self) -> ShelfDriver:
        return ShelfDriver(self.shelf)


class Forgetful(ShelfDriver):
    """Has no idempotent allocation."""

    def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
        count = len(self.shelf.log)
        device = dra.ControllerDevice(claim.requests[0].name, "slot.example.com", "pool", f"slot-{count}")
        return dra.ControllerAllocationResult([device])


class Optimist(ShelfDriver):
    """Calls no node unsuitable."""

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Sequence[str]]:
        return {}


class Single(ShelfDriver):
    """Considers each claim alone."""

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Sequence[str]]:
        return {each.uid: [n for n in nodes if self.shelf.use(n) >= self.shelf.free[n]] for each in claims}


class Keeper(ShelfDriver):
    """Does not release."""

    async def deallocate(self, claim: dra.RecordedClaim) -> None:
        return


class Unlisted(ShelfDriver):
    """Does not list what it holds."""

    async def allocations(self) -> Sequence[str]:
        return []


class Wrong(ShelfDriver):
    """Returns a device whose name is not a DNS label."""

    def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
        return dra.ControllerAllocationResult(
            [dra.ControllerDevice(claim.requests[0].name, "slot.example.com", "pool", "Slot_1")]
        )


Check = Callable[[ControllerContract, ControllerHarness], None]


def with_claim(name: str) -> Check:
    def run(contract: ControllerContract, harness: ControllerHarness) -> None:
        getattr(contract, name)(harness, harness.claim())

    run.__name__ = name
    return run


def alone(name: str) -> Check:
    def run(contract: ControllerContract, harness: ControllerHarness) -> None:
        getattr(contract, name)(harness)

    run.__name__ = name
    return run


@pytest.mark.parametrize(
    ("driver", "free", "check"),
    [
        (Forgetful, 8, with_claim("test_allocating_again_gives_the_same_result")),
        (Forgetful, 8, with_claim("test_after_a_restart_allocating_again_gives_the_same_result")),
        (Optimist, 8, alone("test_a_node_that_is_not_called_unsuitable_is_suitable")),
        (Single, 3, alone("test_the_claims_of_a_pod_are_considered_together")),
        (Keeper, 3, alone("test_a_partial_allocation_can_be_taken_back")),
        (Keeper, 8, with_claim("test_deallocating_twice_is_fine")),
        (Unlisted, 8, with_claim("test_allocations_lists_what_was_allocated")),
        (Wrong, 8, with_claim("test_an_allocation_is_what_an_api_server_accepts")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_defect_is_found(driver: type[ShelfDriver], free: int, check: Check) -> None:
    shelf = Shelf(dict.fromkeys(("node-1", "node-2"), free))
    with ControllerHarness(lambda: driver(shelf)) as harness, pytest.raises((AssertionError, dra.DraError)):
        check(ControllerContract(), harness)


def test_wrong_parameters_of_a_claim_are_an_error_that_names_the_field() -> None:
    class Other(dra.Config):
        api_version = SlotClaim.api_version
        kind = SlotClaim.kind
        slotz: int = 1

    rule = "slotz: SlotClaim has no such field"
    with (
        ControllerHarness(lambda: ShelfDriver(Shelf())) as harness,
        pytest.raises(dra.InvalidObjectError, match=rule),
    ):
        harness.claim(claim_config=Other(slotz=2))
