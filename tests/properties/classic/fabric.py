"""Hardware with limited slots on each node, and the drivers of the controllers that hand it out."""

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dradriver.driver import (
    AllocationError,
    ControllerAllocationResult,
    ControllerDevice,
    ControllerDriver,
    PendingClaim,
    PendingPod,
    RecordedClaim,
)
from dradriver.model.core.node_selector import NodeSelector

__all__ = ["Fabric", "controller_of"]


@dataclass
class Fabric:
    """The hardware of one controller. It keeps what it holds when the controller's process dies.

    Attributes:
        slots: the number of claims that each node can have.
        refused: nodes that the controller refuses, whatever is free.
        held: the node of each claim that has a slot, by UID of the claim.
        failure_rate: the rate of calls that fail.
    """

    name: str
    chance: random.Random
    slots: dict[str, int]
    refused: set[str] = field(default_factory=set)
    held: dict[str, str] = field(default_factory=dict)
    failure_rate: float = 0.0

    def free(self, node: str) -> int:
        """Return the number of free slots of a node; 0 if the controller refuses the node."""
        if node in self.refused:
            return 0
        return self.slots[node] - sum(each == node for each in self.held.values())

    def hold(self, claim: str, node: str) -> bool:
        """Give a slot of the node to a claim, if one is free or the claim has one already."""
        if self.held.get(claim) == node:
            return True
        if claim in self.held or self.free(node) < 1:
            return False
        self.held[claim] = node
        return True

    async def fail_at_times(self) -> None:
        """Take some time, and fail at the rate of failures."""
        await asyncio.sleep(self.chance.choice([0.0, 0.0, 0.01]))
        if self.chance.random() < self.failure_rate:
            raise AllocationError(f"{self.name}: fault injected")


class FabricDriver(ControllerDriver):
    """Gives one slot to each claim."""

    check_nodes_seconds = 0.4
    check_allocations_seconds = 0.5

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str | None
    ) -> Mapping[str, ControllerAllocationResult | AllocationError]:
        """Give a slot to each claim. If the second of two claims gets none, the first keeps its slot."""
        found: dict[str, ControllerAllocationResult | AllocationError] = {}
        for claim in claims:
            await self._fabric.fail_at_times()
            nodes = [node] if node else [self._fabric.held.get(claim.uid, ""), *self._fabric.slots]
            chosen = next((name for name in nodes if name and self._fabric.hold(claim.uid, name)), None)
            found[claim.uid] = (
                AllocationError(f"{self._fabric.name}: no slot is free")
                if chosen is None
                else ControllerAllocationResult(
                    devices=[
                        ControllerDevice(each.name, self.name, self.name, f"slot-{claim.uid[:8]}")
                        for each in claim.requests
                    ],
                    node_selector=NodeSelector.for_node(chosen),
                )
            )
        await self._fabric.fail_at_times()
        return found

    async def deallocate(self, claim: RecordedClaim) -> None:
        """Take the slot from a claim."""
        await self._fabric.fail_at_times()
        self._fabric.held.pop(claim.uid, None)
        await self._fabric.fail_at_times()

    async def unsuitable_nodes(
        self, pod: PendingPod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes without a slot for each of the claims."""
        await self._fabric.fail_at_times()
        own = {claim.uid for claim in claims}
        unsuitable = []
        for node in nodes:
            has = sum(self._fabric.held.get(uid) == node for uid in own)
            if self._fabric.slots.get(node) is None or self._fabric.free(node) + has < len(claims):
                unsuitable.append(node)
        return dict.fromkeys(own, unsuitable)

    def allocations(self) -> Collection[str]:
        """Return the claims that have a slot."""
        return list(self._fabric.held)


def controller_of(fabric: Fabric) -> FabricDriver:
    """Return a new process's driver for the hardware."""
    kind = type("Driver", (FabricDriver,), {"name": fabric.name})
    driver = kind(fabric)
    assert isinstance(driver, FabricDriver)
    return driver
