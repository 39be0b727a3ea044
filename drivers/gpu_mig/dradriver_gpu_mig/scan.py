"""Reads all cards at the same time, so that a GPU that hangs delays none of the others."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from dradriver_gpu_mig.card import (
    DriverNotLoadedError,
    GpuCards,
    GpuError,
    GpuHardware,
    System,
    TimedOutError,
    VersionMismatchError,
)
from dradriver_gpu_mig.snapshot import GpuCard, NodeSnapshot, read_gpu

__all__ = ["scan_node"]

_log = logging.getLogger(__name__)

_Answer = tuple[str, GpuCard | GpuError]


async def scan_node(
    cards: GpuCards, known: Mapping[str, GpuCard], system: System | None = None
) -> NodeSnapshot:
    """Read all GPUs.

    Args:
        cards: the hardware.
        known: the GPUs of earlier reads, by UUID. These GPUs are read even if NVML does not list them.
        system: the installed driver, as it was last read; None: unknown.

    Raises:
        GpuError: the driver does not answer.
    """
    async with cards.opened():
        try:
            system, listed = await cards.call(lambda hardware: hardware.system()), await _list_gpus(cards)
        except TimedOutError as error:
            if system is None or not known:
                raise
            _log.warning("the GPUs cannot be listed, those that are known are read: %s", error)
            listed = []
        uuids = dict.fromkeys([*listed, *known])
        answers = await asyncio.gather(*(_read_card(cards, uuid, known.get(uuid)) for uuid in uuids))
    read = [card for _, card in answers if isinstance(card, GpuCard)]
    return NodeSnapshot(
        system,
        {card.gpu.uuid: card for card in sorted(read, key=lambda card: card.gpu.pci_address)},
        {uuid: error for uuid, error in answers if isinstance(error, GpuError)},
    )


async def _list_gpus(cards: GpuCards) -> Sequence[str]:
    count = await cards.call(lambda hardware: hardware.count())
    found = await asyncio.gather(*(_read_uuid(cards, index) for index in range(count)))
    return [uuid for uuid in found if uuid]


async def _read_uuid(cards: GpuCards, index: int) -> str:
    """Return the UUID of a listed GPU; "" if the GPU does not answer. The hardware logs why."""
    try:
        return await cards.call_gpu(f"GPU with index {index}", lambda hardware: hardware.uuid_at(index))
    except (DriverNotLoadedError, VersionMismatchError):
        raise
    except GpuError:
        return ""


async def _read_card(cards: GpuCards, uuid: str, previous: GpuCard | None) -> _Answer:
    try:
        return uuid, await cards.call_gpu(uuid, partial(_read, uuid=uuid, previous=previous))
    except (DriverNotLoadedError, VersionMismatchError):
        raise
    except GpuError as error:  # the other GPUs are still read
        return uuid, error


def _read(hardware: GpuHardware, uuid: str, previous: GpuCard | None) -> GpuCard:
    return read_gpu(hardware, hardware.gpu(uuid), previous)
