"""The driver class that the SDK calls in the control plane."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.attached import AttachedDevice
from dradriver_fabric_cxl.configs import FabricClass, MemoryAmount, MemoryConfig
from dradriver_fabric_cxl.fabric import AttachRequest, Fabric, FabricError
from dradriver_fabric_cxl.names import ATTACH_FAILED, ATTACHED, DRIVER, NOT_READY
from dradriver_fabric_cxl.pools.access import FabricAccess
from dradriver_fabric_cxl.pools.allocator import FabricAllocator
from dradriver_fabric_cxl.pools.attach_errors import to_attach_error
from dradriver_fabric_cxl.pools.factory import open_fabric
from dradriver_fabric_cxl.pools.requests import identify, make_request
from dradriver_fabric_cxl.pools.settings import VARIABLE, read_settings
from dradriver_fabric_cxl.pools.wanted import check_parameters

__all__ = ["FabricPoolsDriver"]

_MEBIBYTE: Final = 1 << 20


class FabricPoolsDriver(dra.BindingDriver, dra.ControllerDriver):
    """Hands out what a CXL fabric offers, and attaches it to the node of a waiting pod.

    The setting `handedOutBy` decides who chooses the devices of a claim: the scheduler, from published slices
    (`slices`), or this driver (`controller`, KEP-3063). Both ways are in one process, and only the holder of
    the Lease works, so all attachments are made under one setting. After a change of the setting, an existing
    attachment stays until its claim is released, and nothing new is attached the old way:

    | way | with `slices` | with `controller` |
    |---|---|---|
    | slices | published and attached | withdrawn; `attach` refuses a claim that has nothing attached yet |
    | controller | all nodes are unsuitable; `allocate` refuses | chosen and attached |
    | both | detached on release | detached on release |

    It has the credentials of the fabric manager, and no access to a node. The node's driver of the same name
    makes attached devices usable, and releases them before they are detached.

    Args:
        settings: YAML; None: the value of `$FABRIC_CXL_POOLS_SETTINGS`.
        fabric: the fabric; None: the one behind the manager of the settings, or a simulated one. The caller
            closes it.

    Raises:
        UsageError: the settings are invalid.
    """

    name = DRIVER
    configs = (MemoryConfig,)
    class_configs = (FabricClass,)
    claim_configs = (MemoryAmount,)
    own_conditions = (ATTACHED,)
    node_failure_condition = NOT_READY
    node_releases = True
    attach_timeout_seconds = 540.0  # larger than the largest `attachSeconds`
    rescan_seconds = 10.0  # reports of nodes are read in `discover`

    def __init__(self, settings: str | None = None, fabric: Fabric | None = None) -> None:
        self._settings = read_settings(os.environ.get(VARIABLE, "") if settings is None else settings)
        self._given_fabric = fabric
        self._access = FabricAccess(
            self._open_fabric, self._settings.make_rules(), self.node_reports, self.rediscover
        )
        self._allocator = FabricAllocator(self._access)

    async def discover(self) -> list[dra.Pool]:
        """Return the pool of the fabric, for the nodes that can use it now; no pool with `controller`.

        If the manager does not keep the tags of objects, nothing is published until the process is restarted:
        the driver could not find again what it attaches.
        """
        return [(await self._access.read_layout()).build_pool()] if self._publishes else []

    async def fallback(self, dropped: Collection[str]) -> list[dra.Pool] | None:
        """Return the pool in a layout that does not need the fields that the API server drops.

        Args:
            dropped: names of the fields that the API server drops.
        """
        return [(await self._access.get_layout()).select_safe_without(dropped)] if self._publishes else []

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Attach the device to the host of the claim's node, and store its serial number in the claim.

        If the process dies, the manager keeps what was made under the tag of the allocation. The next `attach`
        of the allocation continues, and `detach` removes it.

        Args:
            claim: the allocated claim, whose pod waits.
            device: a device of the claim.

        Raises:
            AttachError: the manager refused or failed, or the fabric is handed out by the controller.

        Source:
            KEP-5007, binding conditions.
        """
        request = await self._make_request(claim, device)
        try:
            await self._check_slices(request)
            attachment = await self._access.attach(request)
        except FabricError as error:
            raise to_attach_error(error) from error
        if attachment.serial is None:
            raise dra.AttachError(
                f"device {device.name}: the manager does not report the serial number, so that the node could "
                "not find the device",
                reason="NoSerialNumber",
                condition=ATTACH_FAILED,
            )
        data = AttachedDevice.of(attachment.serial, attachment.mebibytes * _MEBIBYTE)
        await claim.conditions.set_data(device, data.to_data())

    async def detach(self, attachment: dra.Attachment) -> None:
        """Remove everything that the manager has under the tag of the allocation; a no-op if there is nothing.

        If the process dies, the next `detach` removes the rest.

        Args:
            attachment: the device, the claim and the time of the allocation.

        Raises:
            FabricError: the manager refused or failed.
        """
        await self._access.detach(identify(attachment).tag)

    async def attachments(self) -> list[dra.Attachment]:
        """Return what the manager has for this pool, connected or not.

        An attachment that is connected to the host of an unknown node has no node: the SDK does not detach it.
        """
        found = await self._access.attachments()
        layout = await self._access.read_layout()
        return [
            dra.Attachment(
                each.identity.claim,
                each.identity.pool,
                each.identity.device,
                each.identity.share,
                layout.find_any_node(each.identity.device)
                if each.host is None
                else layout.find_node(each.host),
                each.identity.allocated_at,
            )
            for each in found
            if each.identity.pool == layout.pool_name
        ]

    def claim_parameters(
        self, claim: str, parameters: dra.Config | None, class_parameters: object
    ) -> dra.Config | None:
        """Return the parameters of a claim after a check; see `ControllerDriver.claim_parameters`.

        Args:
            claim: `namespace/name` of the claim.
            parameters: a `MemoryAmount`, or None.
            class_parameters: a `FabricClass`, or None.

        Raises:
            AllocationError: memory needs a size, and an accelerator must not have one.
        """
        check_parameters(claim, parameters, class_parameters)
        return parameters

    async def unsuitable_nodes(
        self,
        pod: dra.PendingPod,  # noqa: ARG002 - the claims contain everything
        claims: Sequence[dra.PendingClaim],
        nodes: Sequence[str],
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes whose port, or the fabric, has no room for all claims together; all with `slices`.

        Args:
            pod: the pod.
            claims: its claims.
            nodes: the nodes to check.
        """
        if self._find_obstacle():
            return {each.uid: nodes for each in claims}
        unsuitable = await self._allocator.find_unsuitable(claims, nodes)
        return {each.uid: unsuitable for each in claims}

    async def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        """Choose memory and accelerators, and attach them to the node; see `ControllerDriver.allocate`.

        If the process dies, the manager keeps what was made under the tags of the claims: the next `allocate`
        continues with the same devices, and `deallocate` removes them.

        Args:
            claims: the claims.
            node: the selected node; None: one with room.

        Returns:
            For each claim, by UID, its devices with their handles, or why it gets none.

        Raises:
            AllocationError: there is no room, or the fabric is handed out by slices.
        """
        if obstacle := self._find_obstacle():
            raise dra.AllocationError(obstacle)
        return await self._allocator.allocate(claims, node)

    async def deallocate(self, claim: dra.RecordedClaim) -> None:
        """Detach everything that the manager has for the claim; a no-op if there is nothing.

        The host does not take part, so this works for a node that is gone too. If the process dies, the next
        `deallocate` removes the rest.

        Args:
            claim: the claim.

        Raises:
            FabricError: the manager refused or failed.
        """
        await self._allocator.deallocate(claim.uid)

    async def allocations(self) -> Collection[str]:
        """Return the UIDs of the claims for which the manager has something that the controller attached."""
        return await self._allocator.list_claims()

    async def shutdown(self) -> None:
        """Close the fabric. Everything stays attached."""
        await self._access.close()

    @property
    def _publishes(self) -> bool:
        return self._settings.handed_out_by == "slices" and not self._access.unusable

    def _find_obstacle(self) -> str:
        """Return why the controller must not attach anything; empty if it may."""
        if self._settings.handed_out_by != "controller":
            return f"the fabric is handed out by slices (${VARIABLE}: handedOutBy)"
        return self._access.unusable

    async def _check_slices(self, request: AttachRequest) -> None:
        """Check that a device which the scheduler has allocated may be attached.

        Raises:
            AttachError: the controller hands out the fabric, and nothing is attached for the allocation yet.
        """
        if self._settings.handed_out_by == "slices":
            return
        if request.identity.tag in {each.identity.tag for each in await self._access.attachments()}:
            return
        raise dra.AttachError(
            f"device {request.identity.device}: the fabric is handed out by the controller of {DRIVER}, not by "
            f"slices (${VARIABLE}: handedOutBy): the claim needs a class with a ControllerClass",
            reason="HandedOutByController",
            condition=ATTACH_FAILED,
            device_is_bad=False,
        )

    async def _make_request(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> AttachRequest:
        if self._access.layout is not None:
            try:
                return make_request(self._access.layout, claim, device)
            except dra.AttachError:
                pass  # the fabric or the nodes may have changed since
        return make_request(await self._access.read_layout(), claim, device)

    def _open_fabric(self) -> AbstractAsyncContextManager[Fabric]:
        if self._given_fabric is not None:
            return nullcontext(self._given_fabric)
        return open_fabric(self._settings, self.simulate)
