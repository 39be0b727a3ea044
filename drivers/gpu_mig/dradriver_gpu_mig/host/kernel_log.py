"""Reads XIDs from the kernel's log. Unlike NVML, the log tells them without an open handle of a GPU."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["KernelXid", "follow_xids", "parse_xid"]

_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)(?: GPU-I:([0-9a-fA-F]+))?\): (\d+)")
_MAX_RECORD: Final = 8192
"""Longest record of the kernel's log; a shorter read fails (Documentation/ABI/testing/dev-kmsg)."""


class KernelXid(NamedTuple):
    """An XID in the kernel's log.

    Attributes:
        pci_address: of the GPU, without its function, in lower case: `0000:07:00`.
        xid: the number.
        gpu_instance: ID of the GPU instance; None: the whole GPU.
    """

    pci_address: str
    xid: int
    gpu_instance: int | None


def parse_xid(line: str) -> KernelXid | None:
    """Return the XID of a line of the log, or None.

    Args:
        line: for example `NVRM: Xid (PCI:0000:07:00): 79, pid=4711, GPU has fallen off the bus.`

    Source:
        https://docs.nvidia.com/deploy/xid-errors/, "Viewing Xid Messages"
    """
    found = _XID.search(line)
    if found is None:
        return None
    address, instance, number = found.groups()
    return KernelXid(
        address.lower().partition(".")[0], int(number), None if instance is None else int(instance, 16)
    )


async def follow_xids(device: Path) -> AsyncGenerator[KernelXid, None]:
    """Yield the XIDs that the kernel logs from now on.

    Args:
        device: `/dev/kmsg`.

    Raises:
        OSError: the log cannot be read.
    """
    descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        loop.add_reader(descriptor, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                for line in _read_records(descriptor):
                    if (xid := parse_xid(line)) is not None:
                        yield xid
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)


def _read_records(descriptor: int) -> list[str]:
    """Return the records that are there. Each read returns one."""
    records: list[str] = []
    while True:
        try:
            record = os.read(descriptor, _MAX_RECORD)
        except BlockingIOError:
            return records
        except BrokenPipeError:  # records were overwritten before they were read; the next read goes on
            continue
        if not record:
            return records
        records.append(record.decode(errors="replace"))
