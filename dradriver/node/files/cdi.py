"""CDI specs: one file for each claim, in the folder that the container runtime reads.

Names: the kind is `<driver>/claim`, the file is `<driver>-claim_<UID>.json`, and a device is `<UID>-<n>`, where
n is its index in the claim. Only files with exactly this form are changed or removed. `/var/run/cdi` is empty
after a reboot, and people remove its files by hand. Every missing file can be written again from the prepared
state.
"""

import re
from pathlib import Path
from typing import Final

from dradriver.errors import DriverError
from dradriver.model.cdi import CdiDevice, CdiSpec, ContainerEdits, cdi_problems, spelled_out
from dradriver.model.encoding.codec import canonical
from dradriver.node.files import atomic
from dradriver.node.state.records import ClaimRecord, RecordedAnswer

__all__ = ["CdiDirectory", "CdiNames", "claim_spec", "has_cdi_device", "spec_text", "usable_uid"]

_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9])?")
_NOT_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML rejects or treats as the end of a line: runtimes read JSON specs as YAML."""

_NO_EDITS: Final = ContainerEdits()


class CdiNames:
    """The names of a driver's CDI kind, devices and files."""

    def __init__(self, driver: str) -> None:
        # A vendor begins with a letter and has at least two characters. A driver's name need not.
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
        """Return the ID with which the runtime is asked for the device."""
        return f"{self.kind}={device}"

    def file(self, uid: str) -> str:
        """Return the name of the claim's spec file."""
        return f"{self._prefix}{uid}.json"

    def uid(self, file: str) -> str | None:
        """Return the UID of the claim of a spec file (or temporary spec file); None for other files."""
        name = file.removeprefix(".").removesuffix(atomic.TEMPORARY) if file.startswith(".") else file
        found = self._own.fullmatch(name)
        return found["uid"] if found else None


def usable_uid(uid: str) -> bool:
    """Return whether a claim's UID can be part of file and device names; every real UID can."""
    return _UID.fullmatch(uid) is not None


def has_cdi_device(answer: RecordedAnswer) -> bool:
    """Return whether the device gets a CDI device of its own; runtimes reject one without edits."""
    return answer.edits != _NO_EDITS


def claim_spec(names: CdiNames, record: ClaimRecord, metadata: dict[str, ContainerEdits]) -> CdiSpec | None:
    """Return the CDI spec of a prepared claim; None when nothing is added to containers.

    Args:
        names: the driver's names.
        record: the claim with its answers.
        metadata: the edits that mount device metadata, by request.

    Raises:
        DriverError: the driver's edits break a rule of CDI.
    """
    devices = [
        CdiDevice(names.device(record.uid, index), spelled_out(answer.edits))
        for index, answer in enumerate(record.answers)
        if has_cdi_device(answer)
    ]
    devices += [CdiDevice(names.metadata_device(record.uid, r), edits) for r, edits in metadata.items()]
    if not devices:
        return None
    spec = CdiSpec(kind=names.kind, devices=devices).at_minimum_version()
    if problems := list(cdi_problems(spec)):
        raise DriverError(
            f"the container edits that the driver returned for claim {record.ref} make no valid CDI spec: "
            + "; ".join(map(str, problems))
        )
    return spec


def spec_text(spec: CdiSpec) -> bytes:
    """Return the text of a spec: JSON that a YAML reader parses to the same strings."""
    text = canonical(spec).decode()
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found.group()):04x}", text).encode()


class CdiDirectory:
    """The folder of CDI specs; every method blocks on the disk."""

    def __init__(self, directory: Path, names: CdiNames) -> None:
        self.directory = directory
        self.names = names

    def write(self, uid: str, text: bytes | None) -> bool:
        """Write the claim's spec to its file, or remove the file if there is no spec.

        If the process dies right after it, a spec without an answer is left. The next prepare writes the same
        one.

        Args:
            uid: the UID of the claim.
            text: the spec (`spec_text`).

        Returns:
            Whether anything had to be written.

        Raises:
            OSError: not written. An old file is unchanged.
        """
        path = self.directory / self.names.file(uid)
        if text is None:
            atomic.remove(path)
            return False
        if atomic.holds(path, text):
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
            OSError: it cannot be removed.
        """
        atomic.remove(self.directory / self.names.file(uid))

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have a file.

        Raises:
            OSError: the folder cannot be read.
        """
        found = map(self.names.uid, atomic.names(self.directory))
        return {uid for uid in found if uid is not None}
