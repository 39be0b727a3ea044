"""The contract passes for correct drivers with devices of their own, partitions, or devices of a controller."""

import json
from collections.abc import Sequence

from dradriver.testing import DriverContract
from tests.unit.testing.drivers import Partitions, Plain, Ports


class TestPlain(DriverContract):
    driver_class = Plain


class TestPartitions(DriverContract):
    driver_class = Partitions


class TestDevicesOfAController(DriverContract):
    driver_class = Ports
    controller_devices = [("fabric.example.com/rack-1", f"port-{n}") for n in range(2)]

    def make_handle(self, devices: Sequence[tuple[str, str]]) -> bytes:
        return json.dumps({name: number for number, (_, name) in enumerate(devices)}).encode()
