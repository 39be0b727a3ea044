"""Update device metadata that the driver learns after prepare: first the record, then the files.

| side effect               | if the process dies right after it                           |
|---------------------------|--------------------------------------------------------------|
| update recorded           | the next sweep or prepare writes the files that are recorded |
| files written, one by one | the same for missing files                                   |
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from dradriver.aio.tasks import settled
from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.context import MetadataUpdate
from dradriver.driver.prepared import DeviceMetadata, PreparedDevice
from dradriver.errors import DriverError
from dradriver.model.names import base_request
from dradriver.node.claims.context import Stores
from dradriver.node.claims.driver_results import recorded_answer
from dradriver.node.errors import ClaimError, InProgressError
from dradriver.node.files.metadata import metadata_files
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice
from dradriver.node.state.rows import Rows

__all__ = ["MetadataUpdates"]

_PATIENCE_SECONDS: Final = 5.0


def _nobody(record: ClaimRecord) -> None:
    """Default callback: does nothing."""


class MetadataUpdates:
    """Serves `Driver.update_metadata`; create it on the loop that uses the state.

    Args:
        driver: the driver's name.
        stores: the prepared state, the claims' files and locks.
        on_updated: called with each claim whose metadata has changed.
    """

    def __init__(
        self, driver: str, stores: Stores, on_updated: Callable[[ClaimRecord], None] = _nobody
    ) -> None:
        self._driver = driver
        self._stores = stores
        self._on_updated = on_updated
        self._loop = asyncio.get_running_loop()

    async def update(self, uid: str, devices: MetadataUpdate) -> None:
        """Replace the metadata of the devices; from any loop.

        Raises:
            DraError: in the cases of `Driver.update_metadata`.
        """
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._update(uid, devices), self._loop))

    async def _update(self, uid: str, devices: MetadataUpdate) -> None:
        told = f"driver {self._driver}: update_metadata() of claim UID {uid}"
        if mistake := _mistake(devices):
            raise DriverError(f"{told}: {mistake}: a mapping from devices to DeviceMetadata is wanted")
        locks, state, files = self._stores.locks, self._stores.state, self._stores.files
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS) as patience, locks.hold(uid):
                patience.reschedule(None)
                record = await state.write(partial(self._record, uid, devices, told, state.boot_id))
                await settled(self._loop.run_in_executor(None, files.write_metadata, record))
        except TimeoutError:
            raise InProgressError(
                f"{told}: the claim is being prepared or unprepared for more than {_PATIENCE_SECONDS:g} s"
            ) from None
        self._on_updated(record)

    def _record(self, uid: str, devices: MetadataUpdate, told: str, boot_id: str, rows: Rows) -> ClaimRecord:
        row = rows.get(uid)
        if row is None or row.state is not ClaimState.PREPARED or row.boot_id != boot_id:
            raise ClaimError(f"{told}: the claim is not prepared here")
        record = _updated(row.record, devices, told)
        shown = metadata_files(self._driver, row.record)
        if hidden := record.metadata_updates.keys() - shown.keys():
            raise DriverError(
                f"{told}: containers read no metadata of request {min(hidden)}, "
                "because prepare() answered no metadata, not even an empty mapping, for its devices"
            )
        rows.amend(record)
        return record


def _updated(record: ClaimRecord, devices: MetadataUpdate, told: str) -> ClaimRecord:
    answers, updates = list(record.answers), dict(record.metadata_updates)
    requests: set[str] = set()
    for key, metadata in devices.items():
        found = [index for index, device in enumerate(record.devices) if _is(device, key)]
        if not found:
            raise DriverError(f"{told}: {_named(key)} is none of its devices")
        answer = PreparedDevice(metadata=metadata.attributes, network=metadata.network)
        new = recorded_answer(answer, f"{told} was given for {_named(key)}")
        for index in found:
            answers[index] = _told_anew(answers[index], new)
            requests.add(base_request(record.devices[index].request))
    for request in requests:
        updates[request] = updates.get(request, 0) + 1
    return msgspec.structs.replace(record, answers=answers, metadata_updates=updates)


def _told_anew(old: RecordedAnswer, new: RecordedAnswer) -> RecordedAnswer:
    return msgspec.structs.replace(old, metadata=new.metadata, network=new.network)


def _is(device: RecordedDevice, key: AllocatedDevice | tuple[str, str]) -> bool:
    if isinstance(key, AllocatedDevice):
        own = (device.request, device.pool, device.device, device.share_id)
        return own == (key.request, key.pool, key.name, key.share_id)
    return (device.pool, device.device) == key


def _mistake(devices: object) -> str:
    """Return a message about a wrong type, empty if there is none; authors' code may ignore type hints."""
    if not isinstance(devices, Mapping):
        return f"it was given {type(devices).__name__}"
    for key, metadata in devices.items():
        if not isinstance(key, AllocatedDevice | tuple):
            return f"it was given {key!r} for a device, neither of the claim nor (pool, name)"
        if not isinstance(metadata, DeviceMetadata):
            return f"it was given {type(metadata).__name__} for {_named(key)}"
    return ""


def _named(key: AllocatedDevice | tuple[str, str]) -> str:
    if isinstance(key, AllocatedDevice):
        return f"device {key.pool}/{key.name}"
    return f"device {'/'.join(map(str, key))}"
