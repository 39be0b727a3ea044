"""`discover()` may be a generator: its body runs in the worker thread, and it may raise in the middle."""

import threading
from collections.abc import Iterator, Mapping

import pytest

import dradriver as dra
from dradriver.errors import DriverError
from dradriver.node.driver_calls import DriverCalls


class Leds(dra.Driver):
    name = "led.example.com"
    ran_in: threading.Thread | None = None

    def discover(self) -> Iterator[dra.Device]:
        self.ran_in = threading.current_thread()
        yield dra.Device("led-0")
        raise FileNotFoundError("/sys/class/leds")

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {}


async def test_an_error_in_the_middle_names_the_method() -> None:
    driver = Leds()
    calls = DriverCalls(driver)
    try:
        with pytest.raises(DriverError, match=r"discover\(\) raised FileNotFoundError: /sys/class/leds"):
            await calls.call(driver.discover)
    finally:
        calls.close()
    assert driver.ran_in is not threading.main_thread()
