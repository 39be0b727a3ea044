"""Devices for the tests of selectors."""

from dradriver.cel import Selector, SelectorDevice
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import Version

GPU = SelectorDevice(
    driver="gpu.example.com",
    attributes={
        "model": "a100",
        "count": 4,
        "healthy": True,
        "version": Version("1.2.3"),
        "modes": ("mig", "whole"),
        "resource.kubernetes.io/numaNode": 1,
    },
    capacity={"memory": Quantity.parse("40Gi"), "other.example.com/slots": Quantity.parse("4")},
    allow_multiple_allocations=True,
)

MINE = 'device.attributes["gpu.example.com"]'


def matches(expression: str, device: SelectorDevice = GPU) -> bool:
    return Selector(expression).matches(device)
