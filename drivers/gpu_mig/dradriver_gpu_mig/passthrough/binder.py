"""Executes the steps of the table in `steps` until no step is left."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, GpuCards, GpuHardware, InUseError, Profile
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.instances import (
    DeviceRecord,
    Holder,
    PassedFunction,
    PassedGpu,
    RecordState,
    RecordStore,
)
from dradriver_gpu_mig.passthrough.functions import find_unfinished, observe_driver, select_functions
from dradriver_gpu_mig.passthrough.open_files import find_users
from dradriver_gpu_mig.passthrough.pci import VFIO_DRIVER, PciBus, PciFunctionState
from dradriver_gpu_mig.passthrough.steps import DesiredDriver, PassthroughStep, next_step

__all__ = ["PassthroughBinder"]

_log: Final = logging.getLogger(__name__)


class PassthroughBinder:
    """Binds GPUs to vfio-pci and returns them.

    Args:
        cards: the hardware.
        record_store: the records.
        pci: the PCI functions.
        proc: the host's procfs, as this process sees it.
    """

    def __init__(self, cards: GpuCards, record_store: RecordStore, pci: PciBus, proc: Path) -> None:
        self._cards = cards
        self._records = record_store
        self._pci = pci
        self._proc = proc

    async def bind(self, device: str, claim: str, gpu: Gpu, profiles: Sequence[Profile]) -> None:
        """Bind all functions of a GPU's card to vfio-pci. Repeating the call is a no-op.

        If a function cannot be bound, the functions are returned before the error is raised. If the process
        dies, the next process continues from the record.

        Args:
            device: name of the device.
            claim: UID of the claim.
            gpu: the GPU.
            profiles: its profiles.

        Raises:
            DraError: the GPU is in use, its IOMMU group contains other cards, vfio-pci is not loaded, or the
                kernel refuses a write.
        """
        async with self._records.lock(device):
            stored = await asyncio.to_thread(self._records.get, device)
            if stored is not None and claim not in stored.claims and stored.state is not RecordState.DESTROYING:
                raise dra.DraError(f"device {device} is in use by the claim with UID {stored.claims[0]}")
            if stored is not None and stored.state is RecordState.DESTROYING:
                await self._converge(DesiredDriver.HOST, stored)
                stored = None
            if stored is None:
                stored = await self._make_record(device, claim, gpu, profiles)
            try:
                await self._converge(DesiredDriver.VFIO, stored)
            except dra.DraError:
                await self._roll_back(stored)
                raise

    async def release(self, record: DeviceRecord) -> None:
        """Return all functions of a record to their drivers, then delete the record.

        Args:
            record: the record, as it was last read.

        Raises:
            InUseError: a virtual machine still uses the GPU.
            DraError: the kernel refuses a write.
        """
        async with self._records.lock(record.device):
            stored = await asyncio.to_thread(self._records.get, record.device)
            if stored is not None and stored.holders == record.holders:
                await self._converge(DesiredDriver.HOST, stored)

    async def recover(self) -> None:
        """Return GPUs that a process left between two drivers, unless another process works on them."""
        for record in await asyncio.to_thread(self._records.all):
            if record.passed is None or record.state is RecordState.READY:
                continue
            try:
                async with self._records.lock(record.device, wait=False):
                    stored = await asyncio.to_thread(self._records.get, record.device)
                    if stored is None or stored.state is RecordState.READY:
                        continue
                    _log.warning("%s is between two drivers: it is returned to the host", record.device)
                    await self._converge(DesiredDriver.HOST, stored)
            except BusyError:
                continue
            except dra.DraError as error:
                _log.warning("%s cannot be returned now: %s", record.device, error)

    async def _make_record(
        self, device: str, claim: str, gpu: Gpu, profiles: Sequence[Profile]
    ) -> DeviceRecord:
        functions = await asyncio.to_thread(self._check, gpu)
        others = sorted(
            each.device for each in await asyncio.to_thread(self._records.all) if each.gpu == gpu.uuid
        )
        if others:
            raise dra.DraError(f"device {device}: other claims have {', '.join(others)} of its GPU")
        await self._cards.call_gpu(gpu.uuid, lambda hardware: _check_unused(hardware, gpu.uuid))
        return DeviceRecord(
            device=device,
            holders=(Holder(claim=claim),),
            gpu=gpu.uuid,
            passed=PassedGpu(gpu=gpu, profiles=tuple(profiles), functions=functions),
        )

    def _check(self, gpu: Gpu) -> tuple[PassedFunction, ...]:
        functions = select_functions(gpu.pci_address, self._pci.read_group(gpu.pci_address))
        if not self._pci.has_driver(VFIO_DRIVER):
            raise dra.DraError(f"GPU {gpu.pci_address}: the module is not loaded: run modprobe {VFIO_DRIVER}")
        if virtual := self._pci.count_virtual_functions(gpu.pci_address):
            raise dra.DraError(f"GPU {gpu.pci_address}: it has {virtual} virtual functions (sriov_numvfs)")
        return functions

    async def _roll_back(self, record: DeviceRecord) -> None:
        try:
            stored = await asyncio.to_thread(self._records.get, record.device)
            if stored is not None and stored.holders == record.holders:
                await self._converge(DesiredDriver.HOST, stored)
        except dra.DraError as error:
            _log.warning(
                "%s cannot be returned now, its next prepare or unprepare will try again: %s",
                record.device,
                error,
            )

    async def _converge(self, desired: DesiredDriver, record: DeviceRecord) -> None:
        passed = _require_passed(record)
        while True:
            stored = await asyncio.to_thread(self._records.get, record.device)
            present = await asyncio.to_thread(self._read_functions, passed)
            observed = observe_driver(passed.functions, present)
            step = next_step(desired, stored.state if stored else None, observed)
            if step is PassthroughStep.DONE:
                return
            _log.debug("%s for claim %s: %s", record.device, ", ".join(record.claims), step.value)
            await self._execute(step, record, present)

    async def _execute(
        self, step: PassthroughStep, record: DeviceRecord, present: dict[str, PciFunctionState]
    ) -> None:
        passed = _require_passed(record)
        match step:
            case PassthroughStep.RECORD_CREATING:
                await self._write(record, RecordState.CREATING)
            case PassthroughStep.RECORD_READY:
                await self._write(record, RecordState.READY)
            case PassthroughStep.RECORD_DESTROYING:
                await self._write(record, RecordState.DESTROYING)
            case PassthroughStep.DELETE_RECORD:
                await asyncio.to_thread(self._records.delete, record.device)
            case PassthroughStep.REJECT:
                raise dra.DraError(f"device {record.device}: another program binds the GPU to {VFIO_DRIVER}")
            case PassthroughStep.BIND:
                function = next(
                    each
                    for each in passed.functions
                    if each.address not in present or present[each.address].driver != VFIO_DRIVER
                )
                await self._bind(passed.gpu, function, present)
            case _:
                function = find_unfinished(passed.functions, present)[0]
                await asyncio.to_thread(self._return, passed, function)

    async def _bind(self, gpu: Gpu, function: PassedFunction, present: dict[str, PciFunctionState]) -> None:
        if function.address not in present:
            raise dra.DraError(f"PCI function {function.address} was removed")
        if function.address == gpu.pci_address and present[function.address].driver is not None:
            await self._cards.call_gpu(gpu.uuid, lambda hardware: _check_unused(hardware, gpu.uuid))
            await self._cards.call_closed(lambda: self._unbind(gpu))
        await asyncio.to_thread(self._pci.bind, function.address, VFIO_DRIVER)

    def _unbind(self, gpu: Gpu) -> None:
        """Bind a GPU that no process has open to vfio-pci. NVML must be closed.

        Raises:
            InUseError: a process has the GPU open, in which case the kernel would block.
        """
        if gpu.minor is not None and (users := find_users(self._proc, {f"/dev/nvidia{gpu.minor}"})):
            raise InUseError(f"{gpu.uuid}: /dev/nvidia{gpu.minor} is open in {', '.join(users)}")
        self._pci.bind(gpu.pci_address, VFIO_DRIVER)

    def _return(self, passed: PassedGpu, function: PassedFunction) -> None:
        """Return a function to its driver.

        Raises:
            InUseError: a process has the function open, in which case the kernel would block.
        """
        group = self._pci.read_group(function.address)
        nodes = {f"/dev/vfio/{group.number}"} if group is not None else set()
        nodes |= {
            f"/dev/vfio/devices/{name}"
            for each in passed.functions
            if (name := self._pci.find_vfio_device(each.address)) is not None
        }
        if users := find_users(self._proc, nodes):
            raise InUseError(f"{passed.gpu.uuid} is used through VFIO by {', '.join(users)}")
        self._pci.release(function.address, function.driver)

    def _read_functions(self, passed: PassedGpu) -> dict[str, PciFunctionState]:
        functions = (self._pci.read_function(each.address) for each in passed.functions)
        return {each.address: each for each in functions if each is not None}

    async def _write(self, record: DeviceRecord, state: RecordState) -> None:
        updated = msgspec.structs.replace(record, state=state, boot=self._records.boot)
        await asyncio.to_thread(self._records.put, updated)


def _check_unused(hardware: GpuHardware, gpu: str) -> None:
    """Check that no program uses a GPU. Runs on the hardware's thread.

    Raises:
        InUseError: a program uses it.
    """
    if hardware.gpu_instances(gpu):
        raise InUseError(f"{gpu} has GPU instances of other programs")
    if processes := hardware.processes(gpu):
        raise InUseError(f"processes {', '.join(str(each.pid) for each in processes)} use {gpu}")


def _require_passed(record: DeviceRecord) -> PassedGpu:
    if record.passed is None:
        raise dra.DraError(f"device {record.device} is not passed to a virtual machine")
    return record.passed
