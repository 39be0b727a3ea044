"""Every LED of the machine becomes a device."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import dradriver as dra

LEDS = Path("/sys/class/leds")


class LedDriver(dra.Driver):
    name = "led.example.com"

    def discover(self) -> Iterable[dra.Device]:
        for index, led in enumerate(sorted(LEDS.glob("*"))):
            yield dra.Device(f"led-{index}", attributes={"label": led.name[:64]})

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {led: self.edits(led) for led in claim.devices}

    def edits(self, led: dra.AllocatedDevice) -> dra.ContainerEdits:
        label = led.device.attribute("label") if led.device else None
        return dra.ContainerEdits(mounts=[dra.Mount(f"{LEDS}/{label}", f"/leds/{label}", ["rw", "bind"])])


if __name__ == "__main__":
    dra.run(LedDriver)
