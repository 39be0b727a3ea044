"""A driver of a fabric in several processes, with a folder as hardware: `python fabric_driver.py`.

`HARDWARE/DEVICE` names the claim that the device is attached for. Each call of the driver is a line of
`HARDWARE/log`: the process, the method, the device.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import dradriver as dra

HARDWARE: Final = Path(os.environ.get("HARDWARE", ""))
DEVICES: Final = ("gpu-0", "gpu-1", "gpu-2")


def note(method: str, device: str) -> None:
    """Append one line in one write."""
    with (HARDWARE / "log").open("ab", buffering=0) as log:
        log.write(f"{os.getpid()} {method} {device}\n".encode())


class FabricDriver(dra.BindingDriver):
    """Attach slowly, so that a test can interrupt it."""

    name = "driver.example.com"
    rescan_seconds = None

    def discover(self) -> Sequence[dra.Pool]:
        """Return all devices, for every node."""
        devices = tuple(
            dra.Device(
                name,
                binds_to_node=True,
                binding_conditions=[f"{self.name}/attached"],
                binding_failure_conditions=[f"{self.name}/attach-failed"],
            )
            for name in DEVICES
        )
        return [dra.Pool("fabric", devices, all_nodes=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        """Write the claim's name; a device with the name of another claim is a violation."""
        note("attach", device.name)
        await asyncio.sleep(0.02)
        file = HARDWARE / device.name
        if file.exists() and file.read_text() != claim.uid:
            note("VIOLATION", device.name)
        file.write_text(claim.uid)

    async def detach(self, attachment: dra.Attachment) -> None:
        """Remove the name if it is that of this claim."""
        note("detach", attachment.device)
        file = HARDWARE / attachment.device
        if file.exists() and file.read_text() == attachment.claim_uid:
            file.unlink()


if __name__ == "__main__":
    dra.run(FabricDriver)
