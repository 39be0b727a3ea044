"""A driver with a folder as hardware: tests kill it, and the folder shows its work until then.

`HARDWARE/inventory` contains the number of devices and a revision. A prepared claim is a folder
`HARDWARE/claims/UID` with a file for each of its devices. They are created one by one, so that a kill leaves an
incomplete folder.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import dradriver as dra

HARDWARE = Path(os.environ.get("HARDWARE", ""))


class FolderDriver(dra.Driver):
    """Read the prepared claims from the folder, as a real driver reads registers."""

    name = "folder.example.com"
    rescan_seconds = 0.2

    def discover(self) -> Iterable[dra.Device]:
        """Return the devices of the inventory, each with the number of its revision."""
        count, revision = map(int, (HARDWARE / "inventory").read_text().split())
        return [dra.Device(f"device-{index}", {"index": index, "revision": revision}) for index in range(count)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """Create a file for each device."""
        folder = HARDWARE / "claims" / claim.uid
        folder.mkdir(parents=True, exist_ok=True)
        for device in claim.devices:
            (folder / device.name).touch()
        return {device: dra.ContainerEdits({"DEVICE": device.name}) for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        """Remove the files, then the folder."""
        folder = HARDWARE / "claims" / claim.uid
        for file in sorted(folder.glob("*")):
            file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def prepared_claims(self) -> Collection[str]:
        """Return the claims in the folder."""
        return [entry.name for entry in (HARDWARE / "claims").glob("*")]


if __name__ == "__main__":
    dra.run(FolderDriver)
