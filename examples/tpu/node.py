"""The node driver of the TPU example: gives containers the TPUs of this host that belong to a published slice.

`pools.py` publishes the slice. Run this driver on every host: `dradriver run examples.tpu.node:TpuDriver`.
"""

from collections.abc import Mapping
from pathlib import Path

import dradriver as dra

ACCELERATORS = Path("/dev")


class TpuDriver(dra.Driver):
    name = "tpu.example.com"

    def discover(self) -> list[dra.Device]:
        return []  # a host has no devices of its own: all devices belong to the shared pool

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        return {device: self.prepare_device(device) for device in claim.devices}

    def prepare_device(self, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        topology = device.device.attribute("topology") if device.device else None
        edits = dra.ContainerEdits(
            env={"TPU_SLICE": device.name, "TPU_TOPOLOGY": str(topology), "TPU_HOST": self.node_name},
            device_nodes=[dra.DeviceNode(str(path)) for path in sorted(ACCELERATORS.glob("accel[0-9]*"))],
        )
        # All hosts of a slice write to one list of conditions, so each host has its own condition type.
        host = dra.Condition(type=f"{self.node_name}-ready", status="True", reason="Wired")
        return dra.PreparedDevice(edits, conditions=(host,))


if __name__ == "__main__":
    dra.run(TpuDriver)
