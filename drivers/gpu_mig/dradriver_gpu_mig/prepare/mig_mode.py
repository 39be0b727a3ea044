"""Switches MIG on and off for a claim."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, GpuError, GpuHardware
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuOffer

__all__ = ["switch_mig"]


async def switch_mig(node: GpuNode, claim: str, offer: GpuOffer, *, enabled: bool) -> GpuOffer:
    """Switch MIG if necessary, and return the offer with the GPU as it is afterwards.

    Args:
        node: the cards and the records.
        claim: UID of the claim.
        offer: the device that the claim gets.
        enabled: whether MIG must be on.

    Raises:
        DraError: the GPU is in use, or the GPU switches MIG only after a reset.
    """
    if offer.card.mig_enabled is enabled:
        return offer
    uuid = offer.card.gpu.uuid
    records = await asyncio.to_thread(node.record_store.all)
    devices_in_use = sorted({each.device for each in records if each.gpu == uuid and each.others(claim)})
    gpu = await node.cards.call_gpu(
        uuid, lambda hardware: _switch_mig(hardware, uuid, devices_in_use, enabled=enabled)
    )
    return replace(offer, card=replace(offer.card, gpu=gpu))


# The function below runs on the hardware's thread.


def _switch_mig(hardware: GpuHardware, uuid: str, devices_in_use: Sequence[str], *, enabled: bool) -> Gpu:
    """Turn MIG on or off on an unused GPU.

    The checks and the switch run in one call on the hardware's thread, so no other call runs between them.

    Args:
        hardware: the cards.
        uuid: the GPU.
        devices_in_use: names of the GPU's devices that other claims have.
        enabled: whether MIG must be on.

    Returns:
        The GPU after the switch, which can change its minor number.

    Raises:
        DraError: the GPU is in use, or the GPU switches MIG only after a reset.
    """
    state = "on" if enabled else "off"
    gpu = hardware.gpu(uuid)
    if gpu.mig is not None and gpu.mig.current is enabled:
        return gpu  # another claim has switched MIG since the cards were read
    if devices_in_use:
        devices = ", ".join(devices_in_use)
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: other claims have {devices}")
    if hardware.gpu_instances(uuid):
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: it has instances of other programs")
    if processes := hardware.processes(uuid):
        pids = ", ".join(str(user.pid) for user in processes)
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: processes {pids} use it")
    mode = hardware.set_mig_mode(uuid, enabled=enabled)
    if mode.current is not enabled:
        hardware.set_mig_mode(uuid, enabled=not enabled)  # otherwise the next reset would switch it
        raise GpuError(f"{uuid}: MIG cannot be switched {state} without a reset of the GPU")
    return hardware.gpu(uuid)
