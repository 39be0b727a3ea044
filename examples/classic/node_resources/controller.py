"""The controller of scratch space: assigns claims to nodes, and each node reserves the space or refuses.

Source: KEP-3063, "Implementing a plugin for node resources". The objects (`objects`) are the only record, so
the process can die at any moment.
"""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Final

import msgspec

import dradriver as dra
from examples.classic.node_resources.objects import (
    AnsweredClaim,
    AssignedClaim,
    NodeScratch,
    ScratchObjects,
    ScratchSpec,
    connect_scratch,
)

ANSWER_SECONDS: Final = 10.0
"""Time limit for the answer of a node."""
REFUSED_SECONDS: Final = 60.0
"""How long a node that has refused a claim stays unsuitable for it."""


class ScratchClaim(dra.Config):
    """Parameters of a claim. Users write it under `ControllerClaim.parameters`.

    Attributes:
        gibibytes: the amount of space.
    """

    api_version = "scratch.example.com/v1"
    kind = "ScratchClaim"
    gibibytes: int = 1

    def __post_init__(self) -> None:
        if self.gibibytes <= 0:
            raise ValueError("gibibytes must be above 0")


class ScratchController(dra.ControllerDriver):
    """Allocates scratch space.

    Args:
        connect: connects to the objects of the nodes.
    """

    name = "scratch.example.com"
    claim_configs = (ScratchClaim,)
    check_nodes_seconds = 5.0  # the free space of nodes changes without the controller

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[ScratchObjects]] = connect_scratch
    ) -> None:
        self._connect_objects = connect
        self._stack = AsyncExitStack()
        self._objects: ScratchObjects | None = None
        self._connecting = asyncio.Lock()
        self._refused: dict[tuple[str, str], float] = {}

    def claim_parameters(
        self,
        claim: str,  # noqa: ARG002 - every claim may have no parameters
        parameters: dra.Config | None,
        class_parameters: object,  # noqa: ARG002 - the class has none
    ) -> dra.Config:
        return parameters or ScratchClaim()

    async def unsuitable_nodes(
        self,
        pod: dra.PendingPod,  # noqa: ARG002 - the claims contain everything
        claims: Sequence[dra.PendingClaim],
        nodes: Sequence[str],
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes with too little space for all claims together, or that have refused one of them.

        A claim counts from the moment in which it is assigned to a node, before the node has answered.
        """
        found = await (await self._connect()).list()
        unsuitable = [node for node in nodes if not self._is_suitable(found.get(node), claims)]
        return {claim.uid: unsuitable for claim in claims}

    async def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        """Assign the claims to the node, and wait for its answers.

        If the process dies after a claim is assigned, the next `allocate` waits for the same answer, and
        `deallocate` withdraws the claim.
        """
        chosen = node or await self._choose_node(claims)
        results = await asyncio.gather(*(self._allocate(claim, chosen) for claim in claims))
        return {claim.uid: result for claim, result in zip(claims, results, strict=True)}

    async def deallocate(self, claim: dra.RecordedClaim) -> None:
        """Withdraw the claim from its node, and wait until the node has freed the space.

        A deleted Node takes its object with it. Then nothing is left to wait for.
        """
        for node, scratch in (await (await self._connect()).list()).items():
            if claim.uid in {*scratch.assigned, *scratch.answers}:
                await self._withdraw(claim.uid, node)

    async def allocations(self) -> Collection[str]:
        found = (await (await self._connect()).list()).values()
        return {uid for scratch in found for uid in (*scratch.assigned, *scratch.answers)}

    async def shutdown(self) -> None:
        await self._stack.aclose()

    async def _allocate(
        self, claim: dra.PendingClaim, node: str
    ) -> dra.ControllerAllocationResult | dra.AllocationError:
        objects = await self._connect()
        await objects.assign(node, lambda scratch: add_claim(scratch, claim))
        try:
            answer = await self._wait_for_answer(claim.uid, node)
        except TimeoutError:
            answer = AnsweredClaim(uid=claim.uid, refused=f"no answer in {ANSWER_SECONDS:g} s")
        if answer is None:
            return dra.AllocationError(f"node {node} has too little scratch space for claim {claim}")
        if answer.path:
            return make_result(claim, node, answer)
        # The claim is tried on another node: the SDK asks `unsuitable_nodes` again after a failure.
        self._refused[claim.uid, node] = time.monotonic() + REFUSED_SECONDS
        await objects.assign(node, lambda scratch: remove_claim(scratch, claim.uid))
        return dra.AllocationError(f"node {node} refuses claim {claim}: {answer.refused}")

    async def _wait_for_answer(self, uid: str, node: str) -> AnsweredClaim | None:
        """Return the node's answer; None if the claim is not assigned to it."""
        objects = await self._connect()
        async with asyncio.timeout(ANSWER_SECONDS), aclosing(objects.changes(node)) as changes:
            async for scratch in changes:
                if scratch is None or uid not in scratch.assigned:
                    return None
                if uid in scratch.answers:
                    return scratch.answers[uid]
        raise TimeoutError

    async def _withdraw(self, uid: str, node: str) -> None:
        objects = await self._connect()
        await objects.assign(node, lambda scratch: remove_claim(scratch, uid))
        try:
            async with asyncio.timeout(ANSWER_SECONDS), aclosing(objects.changes(node)) as changes:
                async for scratch in changes:
                    if scratch is None or uid not in scratch.answers:
                        return
        except TimeoutError:
            raise dra.DraError(f"node {node} has not freed the space of claim UID {uid} yet") from None

    async def _choose_node(self, claims: Sequence[dra.PendingClaim]) -> str:
        """Return the node for claims that are allocated immediately: the one with the most space."""
        found = await (await self._connect()).list()
        held = [
            node for node, scratch in found.items() if any(claim.uid in scratch.assigned for claim in claims)
        ]
        suitable = held or [node for node, scratch in found.items() if self._is_suitable(scratch, claims)]
        if not suitable:
            raise dra.AllocationError("no node has enough scratch space")
        return max(suitable, key=lambda node: found[node].free)

    def _is_suitable(self, scratch: NodeScratch | None, claims: Sequence[dra.PendingClaim]) -> bool:
        if scratch is None:
            return False
        node, now = scratch.metadata.name, time.monotonic()
        self._refused = {key: until for key, until in self._refused.items() if until > now}
        if any((claim.uid, node) in self._refused for claim in claims):
            return False
        wanted = sum(find_size(claim) for claim in claims if claim.uid not in scratch.assigned)
        return wanted <= scratch.free

    async def _connect(self) -> ScratchObjects:
        async with self._connecting:
            if self._objects is None:
                self._objects = await self._stack.enter_async_context(self._connect_objects())
            return self._objects


def find_size(claim: dra.PendingClaim) -> int:
    """Return the gibibytes that a claim wants, for all devices of all requests."""
    return sum(
        request.count * request.claim_parameters.gibibytes
        for request in claim.requests
        if isinstance(request.claim_parameters, ScratchClaim)
    )


def add_claim(scratch: NodeScratch, claim: dra.PendingClaim) -> ScratchSpec:
    """Return the node's claims with one more, if it is new and there is room for it."""
    if claim.uid in scratch.assigned or find_size(claim) > scratch.free:
        return scratch.spec
    assigned = AssignedClaim(uid=claim.uid, gibibytes=find_size(claim))
    return msgspec.structs.replace(scratch.spec, claims=(*scratch.spec.claims, assigned))


def remove_claim(scratch: NodeScratch, uid: str) -> ScratchSpec:
    """Return the node's claims without one."""
    return msgspec.structs.replace(
        scratch.spec, claims=tuple(each for each in scratch.spec.claims if each.uid != uid)
    )


def make_result(claim: dra.PendingClaim, node: str, answer: AnsweredClaim) -> dra.ControllerAllocationResult:
    """Return the allocation of a claim: one device, and the folder for the node's driver."""
    pool, name = f"{ScratchController.name}/{node}", f"claim-{claim.uid}"
    return dra.ControllerAllocationResult(
        devices=[dra.ControllerDevice(claim.requests[0].name, ScratchController.name, pool, name)],
        handles={ScratchController.name: json.dumps({"path": answer.path}).encode()},
        node_selector=dra.NodeSelector.for_node(node),
    )


if __name__ == "__main__":
    dra.run(ScratchController)
