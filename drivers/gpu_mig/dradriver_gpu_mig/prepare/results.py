"""The container edits and the metadata of a prepared device."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import dradriver as dra
from dradriver_gpu_mig.card import MigDevice
from dradriver_gpu_mig.containers import Containers, OfferedEdits
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuOffer

__all__ = ["PreparedResults", "Warn"]

Warn: TypeAlias = Callable[[dra.Claim, str], None]
"""Writes an Event of a claim about something that the node does not offer."""


class PreparedResults:
    """Makes the results of a node.

    Args:
        node: the cards.
        containers: source of the container edits.
        warn: writes an Event about each thing that the node does not offer.
    """

    def __init__(self, node: GpuNode, containers: Containers, warn: Warn) -> None:
        self._node = node
        self._containers = containers
        self._warn = warn

    async def make(
        self, claim: dra.Claim, offer: GpuOffer, mig: MigDevice | None, *, monitors: bool = False
    ) -> dra.PreparedDevice:
        """Return the result for a device that exists.

        Args:
            claim: the claim.
            offer: the device.
            mig: the MIG device; None: the whole GPU.
            monitors: whether the containers may monitor all MIG devices of the node.

        Raises:
            DraError: the driver of the node does not answer, or a file of the node cannot be read.
        """
        gpu, system = offer.card.gpu, await self._node.read_system()
        profile = "" if offer.profile is None else offer.profile.name

        def offered() -> OfferedEdits:
            own = self._containers.mig(gpu, mig, profile) if mig else self._containers.gpu(gpu)
            found = self._containers.common(system) | own
            return found | self._containers.monitor() if monitors else found

        metadata = {"uuid": mig.uuid, "parentUUID": gpu.uuid} if mig else {"uuid": gpu.uuid}
        if profile:
            metadata["profile"] = profile
        found = await asyncio.to_thread(offered)
        for missing in found.missing:
            self._warn(claim, missing)
        return dra.PreparedDevice(found.edits, metadata=metadata, data=metadata)
