"""The answer of a device to Get Health Info."""

import pytest

from dradriver_fabric_cxl.memory import MemoryHealth
from dradriver_fabric_cxl.memory.sysfs.mailbox import parse_health


@pytest.mark.parametrize(
    ("health", "media", "expected"),
    [
        (0, 0, MemoryHealth.OK),
        (0b001, 0, MemoryHealth.DEGRADED),
        (0b010, 0, MemoryHealth.DEGRADED),
        (0b100, 0, MemoryHealth.FAILED),
        (0b111, 0, MemoryHealth.FAILED),
        (0, 1, MemoryHealth.FAILED),
        (0, 2, MemoryHealth.OK),
        (0, 3, MemoryHealth.DEGRADED),
        (0, 9, MemoryHealth.DEGRADED),
    ],
)
def test_the_worst_of_device_and_media_counts(health: int, media: int, expected: MemoryHealth) -> None:
    assert parse_health(bytes([health, media]) + bytes(16)) is expected
