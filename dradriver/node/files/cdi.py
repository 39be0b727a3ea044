"""Write CDI specs: one file for each claim, in the folder that the container runtime reads.

The CDI kind is `<driver>/claim`, a file is `<driver>-claim_<UID>.json`, and a device is `<UID>-<n>`, where n is
the index of the device in the claim. Only files whose names have exactly this form are changed or removed.
`/var/run/cdi` is empty after a reboot, and people remove files from it by hand. Every missing file can be
written again from the prepared state.
"""

import re
from pathlib import Path
from typing import Final

from dradriver.errors import DriverError
from dradriver.model.cdi import CdiDevice, CdiSpec, ContainerEdits, add_bind_options, cdi_problems
from dradriver.model.encoding.codec import canonical
from dradriver.node.files import atomic
from dradriver.node.state.records import ClaimRecord, RecordedAnswer

__all__ = ["CdiDirectory", "CdiNames", "build_spec", "encode_spec", "has_cdi_device", "is_usable_uid"]

_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9])?")
_NOT_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML rejects or treats as the end of a line; container runtimes read JSON specs as YAML."""

_NO_EDITS: Final = ContainerEdits()


class CdiNames:
    """The names of a driver's CDI kind, devices and files."""

    def __init__(self, driver: str) -> None:
        # A CDI vendor must begin with a letter and have at least two characters. A driver's name need not.
        vendor = driver if driver[:1].isalpha() and len(driver) > 1 else f"dra.{driver}"
        self.kind = f"{vendor}/claim"
        self._prefix = f"{vendor}-claim_"
        self._own = re.compile(rf"{re.escape(self._prefix)}(?P<uid>{_UID.pattern})\.json")

    def device(self, uid: str, index: int) -> str:
        """Return the CDI device for the claim's device at `index`."""
        return f"{uid}-{index}"

    def metadata_device(self, uid: str, request: str) -> str:
        """Return the CDI device that mounts a request's device metadata."""
        return f"{uid}_{request}"

    def id(self, device: str) -> str:
        """Return the CDI ID with which the kubelet requests the device from the container runtime."""
        return f"{self.kind}={device}"

    def file(self, uid: str) -> str:
        """Return the name of the claim's spec file."""
        return f"{self._prefix}{uid}.json"

    def uid(self, file: str) -> str | None:
        """Return the claim's UID from the name of a spec file or its temporary file; None for other files."""
        name = file.removeprefix(".").removesuffix(atomic.TEMPORARY) if file.startswith(".") else file
        match = self._own.fullmatch(name)
        return match["uid"] if match else None


def is_usable_uid(uid: str) -> bool:
    """Return whether a claim's UID can be part of file and device names, as UIDs of the API server can."""
    return _UID.fullmatch(uid) is not None


def has_cdi_device(answer: RecordedAnswer) -> bool:
    """Return whether the device gets a CDI device: only if it has edits, because runtimes reject empty ones."""
    return answer.edits != _NO_EDITS


def build_spec(names: CdiNames, record: ClaimRecord, metadata: dict[str, ContainerEdits]) -> CdiSpec | None:
    """Return the CDI spec of a prepared claim; None if the claim adds nothing to containers.

    Args:
        names: the driver's names.
        record: the claim with its answers.
        metadata: the edits that mount device metadata, by request.

    Raises:
        DriverError: the driver's edits violate a rule of CDI.
    """
    devices = [
        CdiDevice(names.device(record.uid, index), add_bind_options(answer.edits))
        for index, answer in enumerate(record.answers)
        if has_cdi_device(answer)
    ]
    uid = record.uid
    devices += [CdiDevice(names.metadata_device(uid, request), edits) for request, edits in metadata.items()]
    if not devices:
        return None
    spec = CdiSpec(kind=names.kind, devices=devices).at_minimum_version()
    if problems := list(cdi_problems(spec)):
        raise DriverError(
            f"claim {record.ref}: the container edits that the driver returned are not a valid CDI spec: "
            + "; ".join(map(str, problems))
        )
    return spec


def encode_spec(spec: CdiSpec) -> bytes:
    """Return the text of a spec: JSON in which JSON and YAML parsers read the same strings."""
    text = canonical(spec).decode()
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode()


class CdiDirectory:
    """The folder of CDI specs; every method blocks on the disk."""

    def __init__(self, directory: Path, names: CdiNames) -> None:
        self.directory = directory
        self.names = names

    def write(self, uid: str, text: bytes | None) -> bool:
        """Write the claim's spec to its file, or remove the file if there is no spec.

        If the process dies right after it, the kubelet has no answer yet and calls again. The next prepare
        finds that the spec is already written.

        Args:
            uid: the UID of the claim.
            text: the spec (`encode_spec`).

        Returns:
            Whether the file was written, because it did not have this content.

        Raises:
            OSError: the spec was not written. An old file is unchanged.
        """
        path = self.directory / self.names.file(uid)
        if text is None:
            atomic.remove(path)
            return False
        if atomic.has_content(path, text):
            return False
        try:
            atomic.write_atomically(path, text)
        except FileNotFoundError:
            self.directory.mkdir(parents=True, exist_ok=True)
            atomic.write_atomically(path, text)
        return True

    def remove(self, uid: str) -> None:
        """Remove the claim's spec, if there is one.

        Raises:
            OSError: the spec cannot be removed.
        """
        atomic.remove(self.directory / self.names.file(uid))

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have a spec file.

        Raises:
            OSError: the folder cannot be read.
        """
        uids = map(self.names.uid, atomic.list_names(self.directory))
        return {uid for uid in uids if uid is not None}
