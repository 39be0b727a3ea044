"""Write and remove the files of a claim together: its CDI spec and its device metadata.

Methods that read or write files block on the disk, so they must run in a worker thread. The content is computed
separately (`compute_contents`), without I/O.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dradriver.model.names import base_request
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.errors import StateError
from dradriver.node.files.cdi import CdiDirectory, build_spec, encode_spec, has_cdi_device
from dradriver.node.files.metadata import MetadataDirectory, find_described_requests
from dradriver.node.state.records import ClaimRecord, ClaimRef

__all__ = ["ClaimFiles", "DeviceAnswer", "FileContents"]


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The answer to the kubelet for one prepared device (`Device` of the DRAPlugin API).

    Attributes:
        requests: the names of the requests that the device satisfies, without the names of subrequests.
        pool, device: the names of the pool and the device.
        cdi_ids: the IDs of the CDI devices that the container runtime injects.
        share_id: ID of the share. Empty for a whole device.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class FileContents:
    """The content of a claim's files.

    Attributes:
        ref: the claim.
        metadata: the device metadata of the claim, by request.
        spec: the CDI spec of the claim. None if the claim has no spec.
    """

    ref: ClaimRef
    metadata: Mapping[str, bytes]
    spec: bytes | None


class ClaimFiles:
    """Writes and removes the files of claims; a claim's files must have one caller at a time."""

    def __init__(self, cdi: CdiDirectory, metadata: MetadataDirectory, observe: Observer) -> None:
        self._cdi = cdi
        self._metadata = metadata
        self._observe = observe

    def compute_contents(self, record: ClaimRecord) -> FileContents:
        """Compute the content of the files, without I/O.

        Raises:
            DriverError: the driver's edits do not form a valid spec.
        """
        metadata = self._metadata.compute_contents(record)
        spec = build_spec(self._cdi.names, record, self._metadata.mounts(record, metadata))
        return FileContents(record.ref, metadata, None if spec is None else encode_spec(spec))

    def write(self, contents: FileContents) -> bool:
        """Write the files: the metadata before the spec, because the spec mounts the metadata.

        If the process dies in between, the claim is still recorded as preparing. The next prepare writes the
        files again, or the next unprepare removes them.

        Returns:
            Whether the CDI spec was written, because its file did not have this content.

        Raises:
            StateError: a file cannot be written. No file is partly written.
        """
        uid = contents.ref.uid
        with _convert_errors(f"claim {contents.ref}: the CDI spec or device metadata cannot be written"):
            self._metadata.write(uid, contents.metadata)
            self._observe(CrashPoint.PREPARE_METADATA_WRITTEN, uid)
            written = self._cdi.write(uid, contents.spec)
            self._observe(CrashPoint.PREPARE_SPEC_WRITTEN, uid)
        return written

    def write_metadata(self, record: ClaimRecord) -> None:
        """Write the metadata files of the record.

        If the process dies in between, the next prepare or sweep writes the rest.

        Raises:
            StateError: a file cannot be written. Its old content is unchanged.
        """
        with _convert_errors(f"claim {record.ref}: the device metadata cannot be written"):
            self._metadata.write(record.uid, self._metadata.compute_contents(record))

    def remove(self, ref: ClaimRef) -> None:
        """Remove the files: the spec before the metadata, because the spec mounts the metadata.

        If the process dies in between, the next unprepare or sweep removes the rest.

        Raises:
            StateError: a file cannot be removed.
        """
        with _convert_errors(f"claim {ref}: the CDI spec or device metadata cannot be removed"):
            self._cdi.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_SPEC_REMOVED, ref.uid)
            self._metadata.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_METADATA_REMOVED, ref.uid)

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have files.

        Raises:
            StateError: the folders cannot be read.
        """
        with _convert_errors("the CDI specs or device metadata cannot be listed"):
            return self._cdi.uids() | self._metadata.uids()

    def uids_of_specs(self) -> set[str]:
        """Return the UIDs of the claims that have a CDI spec.

        Raises:
            StateError: the folder cannot be read.
        """
        with _convert_errors("the CDI specs cannot be listed"):
            return self._cdi.uids()

    def answers(self, record: ClaimRecord) -> list[DeviceAnswer]:
        """Return the answers to the kubelet for a prepared claim, without I/O."""
        names = self._cdi.names
        described = find_described_requests(record)
        answers: list[DeviceAnswer] = []
        mounted: set[str] = set()
        for index, (device, answer) in enumerate(zip(record.devices, record.answers, strict=True)):
            request = base_request(device.request)
            cdi_devices = [names.device(record.uid, index)] if has_cdi_device(answer) else []
            if request in described - mounted:  # one mount serves all devices of a request
                cdi_devices.append(names.metadata_device(record.uid, request))
            mounted.add(request)
            cdi_ids = (*answer.cdi_ids, *map(names.id, cdi_devices))
            answers.append(DeviceAnswer((request,), device.pool, device.device, cdi_ids, device.share_id))
        return answers


@contextmanager
def _convert_errors(message: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"{message}: {error}") from error
