"""Errors that the kernel logs, read without an open handle of a GPU."""

import asyncio
from contextlib import aclosing

import pytest

from dradriver_gpu_mig.host.kernel_log import KernelXid, follow_xids, parse_xid
from tests.drivers.gpu_mig.kernel_log import KERNEL_LOG, needs_kernel_log


@pytest.mark.parametrize(
    ("line", "xid"),
    [
        (
            "NVRM: Xid (PCI:0000:07:00): 79, pid=4711, GPU has fallen off the bus.",
            KernelXid("0000:07:00", 79, None),
        ),
        ("6,1,2,-;NVRM: Xid (PCI:0000:AF:00.0): 48, pid='<unknown>'", KernelXid("0000:af:00", 48, None)),
        ("NVRM: Xid (PCI:0000:07:00 GPU-I:0a): 94, pid=1, Contained", KernelXid("0000:07:00", 94, 10)),
        ("NVRM: GPU at PCI:0000:07:00: GPU-11111111-2222-3333-4444-555555555555", None),
        ("usb 1-1: new device", None),
    ],
)
def test_a_line_of_the_log_names_the_gpu_its_instance_and_the_error(line: str, xid: KernelXid | None) -> None:
    assert parse_xid(line) == xid


@needs_kernel_log
async def test_new_lines_of_the_kernels_own_log_are_followed() -> None:
    async with asyncio.timeout(20), aclosing(follow_xids(KERNEL_LOG)) as xids:
        following = asyncio.ensure_future(anext(xids))
        await asyncio.sleep(0)  # the log is open from here on
        KERNEL_LOG.write_text("dradriver test: NVRM: Xid (PCI:00FE:07:00): 79, pid=1\n")
        xid = await following
        while xid.pci_address != "00fe:07:00":  # another test writes into the same log
            xid = await anext(xids)
        assert xid == KernelXid("00fe:07:00", 79, None)
