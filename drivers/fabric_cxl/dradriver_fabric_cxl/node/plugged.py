"""Waits until devices that the fabric has attached appear on the node."""

import asyncio
from typing import Final

from dradriver_fabric_cxl.accelerator import Accelerators, AttachedAccelerator
from dradriver_fabric_cxl.memory import MemoryDevice, MemoryDeviceNotFoundError, NodeMemory
from dradriver_fabric_cxl.node.errors import AcceleratorNotFoundError

__all__ = ["wait_for_accelerator", "wait_for_memory"]

_POLL_SECONDS: Final = 0.1
"""Seconds between two looks for an accelerator."""


async def wait_for_memory(memory: NodeMemory, serial: int, seconds: float) -> MemoryDevice:
    """Return a memory device as soon as it is plugged in.

    Args:
        memory: the open memory of the node.
        serial: serial number.
        seconds: time limit.

    Raises:
        MemoryDeviceNotFoundError: it was not plugged in within the time limit.
    """
    try:
        async with asyncio.timeout(seconds):
            return await memory.wait_for(serial)
    except TimeoutError:
        raise MemoryDeviceNotFoundError(
            f"no memory device with serial number {serial:#x} was plugged in within {seconds:g} s"
        ) from None


async def wait_for_accelerator(accelerators: Accelerators, serial: int, seconds: float) -> AttachedAccelerator:
    """Return an accelerator as soon as it is plugged in and has its driver.

    Args:
        accelerators: the accelerators of the node.
        serial: serial number.
        seconds: time limit.

    Raises:
        AcceleratorNotFoundError: programs could not use it within the time limit.
    """
    problem = "it is not plugged in"
    try:
        async with asyncio.timeout(seconds):
            while True:
                for each in await asyncio.to_thread(accelerators.devices):
                    if each.serial == serial:
                        if not each.problem:
                            return each
                        problem = each.problem
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise AcceleratorNotFoundError(
            f"accelerator {serial:#x} was not usable within {seconds:g} s: {problem}"
        ) from None
