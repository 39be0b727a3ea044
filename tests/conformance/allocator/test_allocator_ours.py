"""The cases of the allocator suite on this package's allocator."""

from collections.abc import Mapping

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Refusal, allocate
from dradriver.model.resource.claim import Allocation
from tests.conformance.allocator.suite import AllocatorSuite, Refused, Situation


class TestOurAllocator(AllocatorSuite):
    def allocate(self, situation: Situation) -> Mapping[str, Allocation] | Refused:
        try:
            return allocate(
                situation.claims,
                Inventory.of(situation.slices),
                situation.classes,
                InUse.of(situation.others),
                AllocationNode(situation.node, situation.labels),
                features=Features.of_gates(situation.gates),
            )
        except Refusal as refusal:
            return Refused(refusal.kind, refusal.request, refusal.text())
