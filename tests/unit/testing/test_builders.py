"""The builders create objects whose defaults fit together."""

import dradriver as dra
from dradriver.allocator import AllocationNode, InUse, Inventory, allocate
from dradriver.testing import claim, device, device_class, opaque, slice_
from dradriver.testing.builders import CLASS, NODE


class LedConfig(dra.Config):
    api_version = "led.example.com/v1"
    kind = "LedConfig"
    zone: str = ""
    bright_ness: int = 1


def test_the_defaults_can_be_allocated() -> None:
    wanted = claim()
    inventory = Inventory.of([slice_(device())])
    found = allocate([wanted], inventory, {CLASS: device_class()}, InUse(), AllocationNode(NODE))
    assert found[wanted.metadata.uid].devices.results[0].device == "device-0"


def test_every_claim_has_a_uid_of_its_own() -> None:
    assert claim().metadata.uid != claim().metadata.uid


def test_configuration_is_canonical_json_with_its_kind() -> None:
    parameters = bytes(opaque("led.example.com", LedConfig(zone="<a>")).parameters)
    assert parameters == (
        b'{"apiVersion":"led.example.com/v1","brightNess":1,"kind":"LedConfig","zone":"\\u003ca\\u003e"}'
    )
