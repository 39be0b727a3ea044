"""Hands out devices of a fabric to claims by the controller (KEP-3063), instead of by slices.

The record of the allocations is the fabric itself: each object on the manager has a tag made of the claim's UID
and the device. So this module keeps nothing that a crash could lose.

| side effect of `allocate` | if the process dies right after it |
|---|---|
| chunk or connection asked for | the next `allocate` finds it by its tag, and continues with the same device |
| everything connected | the next `allocate` returns the same result; `deallocate` detaches it |
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.attached import AttachedDevice, encode_handle
from dradriver_fabric_cxl.fabric import AttachRequest, FabricAttachment, FabricError
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.pools.access import FabricAccess
from dradriver_fabric_cxl.pools.room import FabricRoom
from dradriver_fabric_cxl.pools.wanted import WantedDevice, list_wanted, name_pool

__all__ = ["FabricAllocator"]

_MEBIBYTE: Final = 1 << 20


class FabricAllocator:
    """Chooses, attaches and detaches the devices of claims.

    Args:
        access: the fabric.
    """

    def __init__(self, access: FabricAccess) -> None:
        self._access = access
        self._choosing = asyncio.Lock()
        self._reserved: dict[str, AttachRequest] = {}

    async def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        """Attach the devices of claims to a node; see `ControllerDriver.allocate`.

        Args:
            claims: the claims.
            node: the node; None: the fabric chooses one.

        Raises:
            AllocationError: the node cannot get all devices of the claims.
            DraError: the manager or the API server does not answer.
        """
        wanted = list_wanted(claims)
        async with self._choosing:
            room = await self._read_room()
            chosen = room.choose_node(wanted) if node is None else node
            requests = dict(zip(wanted, room.place(chosen, wanted), strict=True))
            tags = {each.identity.tag: each for each in requests.values()}
            self._reserved |= tags
        try:
            answers = await asyncio.gather(
                *(self._access.attach(each) for each in requests.values()), return_exceptions=True
            )
        finally:
            for tag in tags:
                self._reserved.pop(tag, None)
        attached = dict(zip(wanted, answers, strict=True))
        return {
            claim.uid: _make_result(
                {each: requests[each] for each in wanted if each.claim == claim.uid}, attached, chosen
            )
            for claim in claims
        }

    async def deallocate(self, claim: str) -> None:
        """Detach everything that the fabric has for a claim; a no-op if there is nothing.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: the manager or the API server does not answer.
        """
        held = [each for each in await self._list_held() if each.identity.claim == claim]
        for answer in await asyncio.gather(
            *(self._access.detach(each.identity.tag) for each in held), return_exceptions=True
        ):
            if isinstance(answer, BaseException):
                raise answer

    async def find_unsuitable(self, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]) -> list[str]:
        """Return the nodes that cannot get all devices of the claims together.

        Args:
            claims: the claims of one pod.
            nodes: the nodes to check.
        """
        room, wanted = await self._read_room(), list_wanted(claims)
        return [node for node in nodes if room.find_obstacle(node, wanted)]

    async def list_claims(self) -> Collection[str]:
        """Return the UIDs of the claims for which the fabric has something."""
        return {each.identity.claim for each in await self._list_held()}

    async def _read_room(self) -> FabricRoom:
        # The reservations are read first, so that an attachment which ends meanwhile is counted by the fabric.
        reserved = list(self._reserved.values())
        return FabricRoom(await self._access.read_layout(), reserved)

    async def _list_held(self) -> list[FabricAttachment]:
        pool = name_pool((await self._access.get_layout()).pool_name)
        return [each for each in await self._access.attachments() if each.identity.pool == pool]


def _make_result(
    requests: Mapping[WantedDevice, AttachRequest],
    attached: Mapping[WantedDevice, FabricAttachment | BaseException],
    node: str,
) -> dra.ControllerAllocationResult | dra.AllocationError:
    devices, handle = [], {}
    for wanted, request in requests.items():
        answer, name = attached[wanted], request.identity.device
        if isinstance(answer, FabricError):
            return dra.AllocationError(str(answer))
        if isinstance(answer, BaseException):
            raise answer
        if answer.serial is None:
            return dra.AllocationError(
                f"device {name}: the manager does not report the serial number that the node needs"
            )
        devices.append(dra.ControllerDevice(wanted.request, DRIVER, request.identity.pool, name))
        handle[name] = AttachedDevice.of(answer.serial, answer.mebibytes * _MEBIBYTE)
    return dra.ControllerAllocationResult(
        devices, {DRIVER: encode_handle(handle)}, dra.NodeSelector.for_node(node)
    )
