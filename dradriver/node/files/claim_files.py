"""Write and remove the files of a claim together: its CDI spec and its device metadata.

Functions that read or write block on the disk and run in a worker thread. The content is computed before.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dradriver.model.names import base_request
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.errors import StateError
from dradriver.node.files.cdi import CdiDirectory, claim_spec, has_cdi_device, spec_text
from dradriver.node.files.metadata import MetadataDirectory, described_requests
from dradriver.node.state.records import ClaimRecord, ClaimRef

__all__ = ["ClaimFiles", "DeviceAnswer", "Texts"]


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The kubelet's answer for one prepared device (`Device` of the DRAPlugin API).

    Attributes:
        requests: the requests that the device satisfies, without subrequests.
        pool, device: identify the device.
        cdi_ids: the CDI devices for the container runtime.
        share_id: ID of the share. Empty for a whole device.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """The content of a claim's files.

    Attributes:
        ref: the claim.
        metadata: its device metadata, by request.
        spec: its CDI spec. None: it has none.
    """

    ref: ClaimRef
    metadata: Mapping[str, bytes]
    spec: bytes | None


class ClaimFiles:
    """Writes and removes the files of claims; one caller for each claim at a time."""

    def __init__(self, cdi: CdiDirectory, metadata: MetadataDirectory, observe: Observer) -> None:
        self._cdi = cdi
        self._metadata = metadata
        self._observe = observe

    def texts(self, record: ClaimRecord) -> Texts:
        """Compute the content of the files, without I/O.

        Raises:
            DriverError: the driver's edits do not form a valid spec.
        """
        metadata = self._metadata.texts(record)
        spec = claim_spec(self._cdi.names, record, self._metadata.mounts(record, metadata))
        return Texts(record.ref, metadata, None if spec is None else spec_text(spec))

    def write(self, texts: Texts) -> bool:
        """Write the content to the files; the metadata first, because the spec mounts it.

        If the process dies in between, the files belong to a claim that is recorded as preparing. The next
        prepare writes the same files, or the next unprepare removes them.

        Returns:
            Whether the CDI spec had to be written.

        Raises:
            StateError: not written. No file is partly written.
        """
        uid = texts.ref.uid
        with _told(texts.ref, "written"):
            self._metadata.write(uid, texts.metadata)
            self._observe(CrashPoint.PREPARE_METADATA_WRITTEN, uid)
            written = self._cdi.write(uid, texts.spec)
            self._observe(CrashPoint.PREPARE_SPEC_WRITTEN, uid)
        return written

    def write_metadata(self, record: ClaimRecord) -> None:
        """Write the metadata files of the record.

        If the process dies in between, the next prepare or sweep writes the rest.

        Raises:
            StateError: not written. The old files are unchanged, each of them.
        """
        with _told(record.ref, "written"):
            self._metadata.write(record.uid, self._metadata.texts(record))

    def remove(self, ref: ClaimRef) -> None:
        """Remove the files; the spec first, because it mounts the metadata.

        If the process dies in between, the next unprepare or sweep removes the rest.

        Raises:
            StateError: a file cannot be removed.
        """
        with _told(ref, "removed"):
            self._cdi.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_SPEC_REMOVED, ref.uid)
            self._metadata.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_METADATA_REMOVED, ref.uid)

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have files.

        Raises:
            StateError: the folders cannot be read.
        """
        try:
            return self._cdi.uids() | self._metadata.uids()
        except OSError as error:
            raise StateError(f"CDI specs and device metadata can't be listed: {error}") from error

    def specs(self) -> set[str]:
        """Return the UIDs of the claims that have a CDI spec.

        Raises:
            StateError: the folder cannot be read.
        """
        try:
            return self._cdi.uids()
        except OSError as error:
            raise StateError(f"CDI specs can't be listed: {error}") from error

    def answers(self, record: ClaimRecord) -> list[DeviceAnswer]:
        """Return the kubelet's answers for a prepared claim, without I/O."""
        names = self._cdi.names
        described = described_requests(record)
        told: list[DeviceAnswer] = []
        requests: set[str] = set()
        for index, (device, answer) in enumerate(zip(record.devices, record.answers, strict=True)):
            request = base_request(device.request)
            wanted = [names.device(record.uid, index)] if has_cdi_device(answer) else []
            if (
                request in described - requests
            ):  # one mount for each request, for any of its devices that a container uses
                wanted.append(names.metadata_device(record.uid, request))
            requests.add(request)
            ids = map(names.id, wanted)
            told.append(
                DeviceAnswer((request,), device.pool, device.device, (*answer.cdi_ids, *ids), device.share_id)
            )
        return told


@contextmanager
def _told(ref: ClaimRef, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"claim {ref}: the CDI spec or device metadata can't be {done}: {error}") from error
