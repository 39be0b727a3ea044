"""Update device metadata after prepare: first in the record, then in the files.

| side effect               | if the process dies right after it                         |
|---------------------------|------------------------------------------------------------|
| update recorded           | the next sweep or prepare writes the files from the record |
| some of the files written | the next sweep or prepare writes the other files           |
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from dradriver.aio.tasks import await_thread
from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.context import MetadataUpdate
from dradriver.driver.prepared import DeviceMetadata, PreparedDevice
from dradriver.errors import DriverError
from dradriver.model.names import base_request
from dradriver.node.claims.context import Stores
from dradriver.node.claims.driver_results import record_answer
from dradriver.node.errors import ClaimError, InProgressError
from dradriver.node.files.metadata import build_metadata_files
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRecord, RecordedDevice
from dradriver.node.state.rows import Rows

__all__ = ["MetadataUpdates"]

_LOCK_SECONDS: Final = 5.0


class MetadataUpdates:
    """Serves `Driver.update_metadata`; must be created on the event loop that uses the prepared state.

    Args:
        driver: the driver's name.
        stores: the prepared state, the claims' files and locks.
        on_updated: called with each claim whose metadata has changed.
    """

    def __init__(
        self, driver: str, stores: Stores, on_updated: Callable[[ClaimRecord], None] = lambda _: None
    ) -> None:
        self._driver = driver
        self._stores = stores
        self._on_updated = on_updated
        self._loop = asyncio.get_running_loop()

    async def update(self, uid: str, devices: MetadataUpdate) -> None:
        """Replace the metadata of the devices; may be called from any event loop.

        Raises:
            DraError: for the reasons that `Driver.update_metadata` lists.
        """
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._update(uid, devices), self._loop))

    async def _update(self, uid: str, devices: MetadataUpdate) -> None:
        subject = f"driver {self._driver}: update_metadata() of claim UID {uid}"
        if type_error := _find_type_error(devices):
            raise DriverError(f"{subject}: {type_error}")
        locks, state, files = self._stores.locks, self._stores.state, self._stores.files
        try:
            async with asyncio.timeout(_LOCK_SECONDS) as timeout, locks.hold(uid):
                timeout.reschedule(None)
                record = await state.write(partial(self._record, uid, devices, subject, state.boot_id))
                await await_thread(self._loop.run_in_executor(None, files.write_metadata, record))
        except TimeoutError:
            raise InProgressError(
                f"{subject}: a prepare or unprepare of the claim has taken more than {_LOCK_SECONDS:g} s"
            ) from None
        self._on_updated(record)

    def _record(self, uid: str, devices: MetadataUpdate, subject: str, boot_id: str, rows: Rows) -> ClaimRecord:
        row = rows.get(uid)
        if row is None or row.state is not ClaimState.PREPARED or row.boot_id != boot_id:
            raise ClaimError(f"{subject}: the claim is not prepared here")
        record = _update_record(row.record, devices, subject)
        files = build_metadata_files(self._driver, row.record)
        if without_file := record.metadata_updates.keys() - files.keys():
            raise DriverError(
                f"{subject}: request {min(without_file)} has no metadata file: "
                "prepare() must return metadata for its devices, at least an empty mapping"
            )
        rows.amend(record)
        return record


def _update_record(record: ClaimRecord, devices: MetadataUpdate, subject: str) -> ClaimRecord:
    answers, updates = list(record.answers), dict(record.metadata_updates)
    requests: set[str] = set()
    for key, metadata in devices.items():
        indexes = [index for index, device in enumerate(record.devices) if _matches(device, key)]
        if not indexes:
            raise DriverError(f"{subject}: {_format_key(key)} is not a device of the claim")
        prepared = PreparedDevice(metadata=metadata.attributes, network=metadata.network)
        answer = record_answer(prepared, f"{subject}: {_format_key(key)}")
        for index in indexes:
            answers[index] = msgspec.structs.replace(
                answers[index], metadata=answer.metadata, network=answer.network
            )
            requests.add(base_request(record.devices[index].request))
    for request in requests:
        updates[request] = updates.get(request, 0) + 1
    return msgspec.structs.replace(record, answers=answers, metadata_updates=updates)


def _matches(device: RecordedDevice, key: AllocatedDevice | tuple[str, str]) -> bool:
    if isinstance(key, AllocatedDevice):
        own = (device.request, device.pool, device.device, device.share_id)
        return own == (key.request, key.pool, key.name, key.share_id)
    return (device.pool, device.device) == key


def _find_type_error(devices: object) -> str:
    """Return a message about a value of a wrong type; empty if all types are right.

    Authors' code may ignore type hints.
    """
    if not isinstance(devices, Mapping):
        return f"{type(devices).__name__}: must be a mapping from devices to DeviceMetadata"
    for key, metadata in devices.items():
        if not isinstance(key, AllocatedDevice | tuple):
            return f"{key!r}: must be a device of the claim, or its (pool, name)"
        if not isinstance(metadata, DeviceMetadata):
            return f"{_format_key(key)}: {type(metadata).__name__}: must be DeviceMetadata"
    return ""


def _format_key(key: AllocatedDevice | tuple[str, str]) -> str:
    if isinstance(key, AllocatedDevice):
        return f"device {key.pool}/{key.name}"
    return f"device {'/'.join(map(str, key))}"
