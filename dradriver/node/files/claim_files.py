"""The files of a claim: its CDI spec and its device metadata, written and removed together.

What reads or writes blocks on the disk and runs in a worker thread; what they should hold is decided before.
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
    """What the kubelet is told of one prepared device (`Device` of the DRAPlugin API).

    Attributes:
        requests: the requests that the device answers, without subrequests.
        pool, device: which device.
        cdi_ids: what the container runtime is asked for.
        share_id: which share of it; empty for a whole device.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """What the files of a claim hold.

    Attributes:
        ref: the claim.
        metadata: its device metadata, by request.
        spec: its CDI spec; None: it has none.
    """

    ref: ClaimRef
    metadata: Mapping[str, bytes]
    spec: bytes | None


class ClaimFiles:
    """Writes and removes the files of claims; one caller a claim at a time."""

    def __init__(self, cdi: CdiDirectory, metadata: MetadataDirectory, observe: Observer) -> None:
        self._cdi = cdi
        self._metadata = metadata
        self._observe = observe

    def texts(self, record: ClaimRecord) -> Texts:
        """What the files should hold; no I/O.

        Raises:
            DriverError: the driver's edits make no valid spec.
        """
        metadata = self._metadata.texts(record)
        spec = claim_spec(self._cdi.names, record, self._metadata.mounts(record, metadata))
        return Texts(record.ref, metadata, None if spec is None else spec_text(spec))

    def write(self, texts: Texts) -> bool:
        """Makes the files hold the texts; the metadata first, because the spec mounts it.

        A process that dies in between leaves files of a claim that is recorded as preparing: the next prepare
        writes the same ones, the next unprepare removes them.

        Returns:
            Whether the CDI spec had to be written.

        Raises:
            StateError: not written; no half of a file is left.
        """
        uid = texts.ref.uid
        with _told(texts.ref, "written"):
            self._metadata.write(uid, texts.metadata)
            self._observe(CrashPoint.PREPARE_METADATA_WRITTEN, uid)
            written = self._cdi.write(uid, texts.spec)
            self._observe(CrashPoint.PREPARE_SPEC_WRITTEN, uid)
        return written

    def write_metadata(self, record: ClaimRecord) -> None:
        """Makes the metadata files what the record says; killed before it, the next prepare or sweep does it.

        Raises:
            StateError: not written; the old files are untouched, each of them.
        """
        with _told(record.ref, "written"):
            self._metadata.write(record.uid, self._metadata.texts(record))

    def remove(self, ref: ClaimRef) -> None:
        """Removes the files; the spec first, because it mounts the metadata.

        A process that dies in between leaves the rest to the next unprepare or to the collection of orphans.

        Raises:
            StateError: a file can't be removed.
        """
        with _told(ref, "removed"):
            self._cdi.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_SPEC_REMOVED, ref.uid)
            self._metadata.remove(ref.uid)
            self._observe(CrashPoint.UNPREPARE_METADATA_REMOVED, ref.uid)

    def uids(self) -> set[str]:
        """The claims of which there are files.

        Raises:
            StateError: the folders can't be read.
        """
        try:
            return self._cdi.uids() | self._metadata.uids()
        except OSError as error:
            raise StateError(f"CDI specs and device metadata can't be listed: {error}") from error

    def specs(self) -> set[str]:
        """The claims of which there is a CDI spec.

        Raises:
            StateError: the folder can't be read.
        """
        try:
            return self._cdi.uids()
        except OSError as error:
            raise StateError(f"CDI specs can't be listed: {error}") from error

    def answers(self, record: ClaimRecord) -> list[DeviceAnswer]:
        """What the kubelet is told of a prepared claim; no I/O."""
        names = self._cdi.names
        described = described_requests(record)
        told: list[DeviceAnswer] = []
        requests: set[str] = set()
        for index, (device, answer) in enumerate(zip(record.devices, record.answers, strict=True)):
            request = base_request(device.request)
            wanted = [names.device(record.uid, index)] if has_cdi_device(answer) else []
            if (
                request in described - requests
            ):  # one mount a request, whichever of its devices a container uses
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
