"""A node driver of devices that a controller allocates: its plugin name is `LINK_DRIVER`.

A prepared claim is a file `HARDWARE/NODE/PLUGIN/UID` with the SHA-256 of the handle of each device. A container
gets the digest as `LINK_PLUGIN` (the first label of the plugin's name). The driver reports it in the status of
the claim, too.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import dradriver as dra

HARDWARE = Path(os.environ.get("HARDWARE", ""))
NAME = os.environ.get("LINK_DRIVER", "link.example.com")


class LinkDriver(dra.Driver):
    """Connect each device by its handle."""

    name = NAME

    @property
    def folder(self) -> Path:
        """Return the folder of the prepared claims."""
        return HARDWARE / self.node_name / self.name

    def discover(self) -> Iterable[dra.Device]:
        """Return no devices: a controller allocates all devices of this driver."""
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Write the digests of the handles."""
        digests = {device: digest(device.handle) for device in claim.devices}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / claim.uid).write_text("".join(f"{each}\n" for each in digests.values()))
        variable = f"LINK_{self.name.partition('.')[0].upper()}"
        ready = dra.Condition(type="Linked", status="True", reason="Linked")
        return {
            device: dra.PreparedDevice(
                dra.ContainerEdits(env={variable: value}), data={"handle": value}, conditions=[ready]
            )
            for device, value in digests.items()
        }

    def unprepare(self, claim: dra.Claim) -> None:
        """Remove the file; the handle must be the same."""
        file = self.folder / claim.uid
        if file.exists() and claim.devices:
            wanted = "".join(f"{digest(device.handle)}\n" for device in claim.devices)
            if file.read_text() != wanted:
                raise dra.DriverError(f"claim {claim}: unprepare has another handle than prepare")
        file.unlink(missing_ok=True)

    def prepared_claims(self) -> Collection[str]:
        """Return the claims in the folder."""
        return [each.name for each in self.folder.glob("*")]


def digest(handle: bytes | None) -> str:
    """Return the SHA-256 of a handle; `none` if there is no handle."""
    return "none" if handle is None else hashlib.sha256(handle).hexdigest()


if __name__ == "__main__":
    dra.run(LinkDriver)
