"""A program that writes to an address that is not mapped causes an XID, which says nothing against the GPU."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from dradriver_gpu_mig.card import Event, EventKind, Gpu
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.health import classify_event
from dradriver_gpu_mig.host.kernel_log import KernelXid, follow_xids
from dradriver_gpu_mig.settings import GpuSettings
from dradriver_gpu_mig.snapshot import read_gpu
from tests.drivers.gpu_mig import nvidia_smi
from tests.gpu.cuda import ILLEGAL_ADDRESS, parse, run_cuda, select_gpu

KERNEL_LOG = Path("/dev/kmsg")
XIDS_OF_PROGRAMS = {13, 31, 43}
"""NVIDIA, XID errors: an exception of the graphics engine, a page fault, a channel that was stopped."""
SECONDS = 20


def wait_for_xid(hardware: NvmlGpus) -> Event | None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        event = hardware.wait_event(1)
        if event is not None and event.kind is EventKind.XID:
            return event
    return None


def test_nvml_reports_it_and_the_gpu_stays_healthy(hardware: NvmlGpus, gpu: Gpu, cuda_program: Path) -> None:
    while hardware.wait_event(0.1) is not None:
        pass
    facts = parse(run_cuda(cuda_program, gpu, "fault").stdout)
    assert facts["status"] == str(ILLEGAL_ADDRESS)
    event = wait_for_xid(hardware)
    assert event is not None
    assert (event.gpu, event.xid in XIDS_OF_PROGRAMS) == (gpu.uuid, True)
    assert classify_event(event, read_gpu(hardware, gpu), GpuSettings(), time.time()) is None


async def test_the_log_of_the_kernel_has_it(gpu: Gpu, cuda_program: Path) -> None:
    if not os.access(KERNEL_LOG, os.R_OK):
        pytest.skip("the log of the kernel can't be read")
    found: asyncio.Queue[KernelXid] = asyncio.Queue()

    async def follow() -> None:
        async for xid in follow_xids(KERNEL_LOG):
            found.put_nowait(xid)

    task = asyncio.create_task(follow())
    try:
        await asyncio.sleep(0)  # the task opens the log at its end
        await asyncio.to_thread(run_cuda, cuda_program, gpu, "fault")
        async with asyncio.timeout(SECONDS):
            xid = await found.get()
            while not gpu.pci_address.startswith(xid.pci_address):  # a test without a GPU writes into the log
                xid = await found.get()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert xid.xid in XIDS_OF_PROGRAMS


def test_the_memory_and_the_process_of_a_program_are_seen(
    hardware: NvmlGpus, gpu: Gpu, cuda_program: Path
) -> None:
    command = (str(cuda_program), "hold")
    with subprocess.Popen(
        command, env=select_gpu(gpu), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert any(line == "ready\n" for line in running.stdout)
        processes = hardware.processes(gpu.uuid)
        _, text = nvidia_smi.run_nvidia_smi("--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
        running.communicate("")
    assert f"{running.pid}, {gpu.uuid}" in text.splitlines()
    (process,) = (each for each in processes if each.pid == running.pid)
    assert (process.memory or 0) >= 64 << 20
    assert running.pid not in {each.pid for each in hardware.processes(gpu.uuid)}
