"""A driver whose hardware is a folder: it is killed at any moment, and the folder tells what it had done.

`HARDWARE/inventory` holds the number of devices and a revision. A prepared claim is a folder
`HARDWARE/claims/UID` with a file for each of its devices, made one by one, so that a kill leaves it half made.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import dradriver as dra

HARDWARE = Path(os.environ.get("HARDWARE", ""))


class FolderDriver(dra.Driver):
    """Its view of what is prepared is the folder, as real hardware's is its registers."""

    name = "folder.example.com"
    rescan_seconds = 0.2

    def discover(self) -> Iterable[dra.Device]:
        """As many devices as the inventory says, each with the number of its revision."""
        count, revision = map(int, (HARDWARE / "inventory").read_text().split())
        return [dra.Device(f"device-{index}", {"index": index, "revision": revision}) for index in range(count)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """A file for each device."""
        folder = HARDWARE / "claims" / claim.uid
        folder.mkdir(parents=True, exist_ok=True)
        for device in claim.devices:
            (folder / device.name).touch()
        return {device: dra.ContainerEdits({"DEVICE": device.name}) for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        """The files go, then the folder."""
        folder = HARDWARE / "claims" / claim.uid
        for file in sorted(folder.glob("*")):
            file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def prepared_claims(self) -> Collection[str]:
        """What the folder knows."""
        return [entry.name for entry in (HARDWARE / "claims").glob("*")]


if __name__ == "__main__":
    dra.run(FolderDriver)
