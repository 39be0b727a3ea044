"""In any order of configuration entries, each device gets the handle of its plugin and request."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import MAX_HANDLE_BYTES
from dradriver.model.resource.claim import AllocationConfig, OpaqueConfig
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.errors import ClaimError
from dradriver.node.state.records import decode_record, encode_record
from tests.unit.node.controlled import controlled, result, with_config
from tests.unit.node.world import NODE

PLUGINS = ["lamp.example.com", "nic.example.com"]
HANDLES = st.binary(max_size=40) | st.integers(7000, MAX_HANDLE_BYTES).map(lambda size: b"\xfe" * size)
CONFIG = Raw(b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig"}')


@st.composite
def allocations(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[tuple[str, str], bytes]]:
    """Devices as (plugin, request), and the handle of each."""
    requests = [f"request-{n}" for n in range(draw(st.integers(1, 3)))]
    devices = draw(
        st.lists(st.tuples(st.sampled_from(PLUGINS), st.sampled_from(requests)), min_size=1, max_size=5)
    )
    keys = draw(st.lists(st.sampled_from(sorted(set(devices))), unique=True))
    return devices, {key: draw(HANDLES) for key in keys}


@given(allocations(), st.randoms(use_true_random=False), st.booleans())
def test_each_device_gets_its_own_handle(
    allocation: tuple[list[tuple[str, str]], dict[tuple[str, str], bytes]], random: Random, lost: bool
) -> None:
    devices, handles = allocation
    claim = controlled(
        "claim",
        *(result(f"d-{n}", driver=driver, request=request) for n, (driver, request) in enumerate(devices)),
        handle=None,
        uid="uid",
    )
    entries = [
        part
        for (driver, request), data in handles.items()
        for part in split_handle(driver, "uid", data, requests=[request])
    ]
    configs = [
        AllocationConfig(source=source, opaque=OpaqueConfig(driver, CONFIG))
        for driver in PLUGINS
        for source in ("FromClass", "FromClaim")
    ]
    several = {key for key, data in handles.items() if len(split_handle(key[0], "uid", data)) > 1}
    broken = set()
    if lost and several:
        key = min(several)
        first = next(
            each
            for each in entries
            if each.opaque and each.opaque.driver == key[0] and each.requests == [key[1]]
        )
        entries.remove(first)
        broken = {key[0]}
    mixed = [*entries, *configs]
    random.shuffle(mixed)
    for driver in PLUGINS:
        if driver in broken:
            with pytest.raises(ClaimError, match="parts"):
                to_allocated_claim(with_config(claim, mixed), driver, NODE)
            continue
        wanted = to_allocated_claim(with_config(claim, mixed), driver, NODE).record
        record = decode_record(encode_record(wanted))
        assert record == wanted
        assert [(driver, each.request) for each in record.devices] == [
            each for each in devices if each[0] == driver
        ]
        for each in record.devices:
            assert record.handle_of(each) == handles.get((driver, each.request))
            assert len(each.parameters) == 2
