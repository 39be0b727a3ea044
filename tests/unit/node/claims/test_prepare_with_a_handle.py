"""`prepare` and `unprepare` get the handle of the controller that has allocated the claim (KEP-3063)."""

from dataclasses import replace as replace_fields

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.kube.errors import Unavailable
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import MAX_HANDLE_BYTES
from dradriver.model.resource.claim import AllocationConfig, OpaqueConfig, ResourceClaim
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.claims.rebuild import record_hold
from dradriver.node.crash_points import CrashPoint
from dradriver.node.errors import ClaimError, InvalidConfigError
from dradriver.node.state.records import ClaimRecord, decode_record, encode_record
from tests.unit.node.controlled import POOL, HandleDriver, controlled, result, with_config
from tests.unit.node.world import DRIVER, NODE, LampConfig, World, allocated, ref

HANDLE = b'{"fabric":"0x1f"}'
COLOR = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","color":"red"}'


class Killed(BaseException):
    """The process is gone: no code catches this."""


def kill_after_the_driver(step: CrashPoint, _uid: str) -> None:
    if step is CrashPoint.PREPARE_DRIVER_DONE:
        raise Killed


@given(st.binary(max_size=200) | st.integers(0, MAX_HANDLE_BYTES).map(lambda size: b"\xfe" * size))
def test_the_record_keeps_each_handle(data: bytes) -> None:
    wanted = to_allocated_claim(controlled("claim", "lamp-0", "lamp-1", handle=data), DRIVER, NODE).record

    record = decode_record(encode_record(wanted))

    assert [record.handle_of(device) for device in record.devices] == [data, data]
    assert len(record.handles) == 1


async def test_a_handle_of_16_kib_in_parts_reaches_the_driver_also_after_a_restart(world: World) -> None:
    handle = bytes(range(256)) * 64
    claim = controlled("claim", "lamp-0", handle=handle)
    driver = HandleDriver(world.hardware)
    process = await world.start(driver=driver, observe=kill_after_the_driver)
    with pytest.raises(Killed):
        await process.prepare(claim)
    await process.die()
    assert driver.prepared == [handle]
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        (answer,) = await process.prepare(claim)
        await process.unprepare(ref(claim))
    assert (answer.pool, answer.device) == (POOL, "lamp-0")
    assert driver.prepared == driver.unprepared == [handle]


async def test_the_handle_is_taken_out_before_strict_decoding_of_the_users_configuration(world: World) -> None:
    claim = controlled("claim", "lamp-0", handle=HANDLE, parameters=COLOR)
    (device,) = to_allocated_claim(claim, DRIVER, NODE).record.devices
    assert device.parameters == [COLOR.decode()]
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(claim)
    assert driver.prepared == [HANDLE]
    assert driver.configs == (LampConfig,)


async def test_devices_of_one_claim_have_the_handle_of_their_requests(world: World) -> None:
    claim = controlled("claim", "lamp-0", "lamp-1", "lamp-2", handle=None)
    uid = claim.metadata.uid
    claim = with_config(
        claim,
        [
            *split_handle(DRIVER, uid, b"first", requests=["request-0"]),
            *split_handle(DRIVER, uid, b"second", requests=["request-1"]),
        ],
    )
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(claim)
        await process.unprepare(ref(claim))
    assert driver.prepared == driver.unprepared == [b"first", b"second", None]


async def test_each_kubelet_plugin_gets_only_its_own_handle(world: World) -> None:
    claim = controlled(
        "claim", result("lamp-0"), result("nic-0", driver="nic.example.com"), handle=HANDLE, uid="uid"
    )
    claim = with_config(claim, split_handle("nic.example.com", "uid", b"other"))
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        (answer,) = await process.prepare(claim)
    assert answer.device == "lamp-0"
    assert driver.prepared == [HANDLE]
    (other,) = to_allocated_claim(claim, "nic.example.com", NODE).record.devices
    assert (other.device, other.handle) == ("nic-0", 0)


async def test_an_allocation_without_a_handle_gives_none(world: World) -> None:
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(controlled("claim", "lamp-0", handle=None))
        await process.prepare(controlled("empty", "lamp-1", handle=b""))
    assert driver.prepared == [None, b""]


def entry(config: AllocationConfig, **fields: object) -> AllocationConfig:
    """The part of a handle with other fields."""
    assert config.opaque is not None
    values = msgspec.json.decode(config.opaque.parameters) | fields
    return replace(config, opaque=OpaqueConfig(DRIVER, msgspec.Raw(msgspec.json.encode(values))))


PARTS = split_handle(DRIVER, "uid", b"x" * MAX_HANDLE_BYTES)
(SHORT,) = split_handle(DRIVER, "uid", b"x")


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (split_handle(DRIVER, "another", b"x"), "claimUID: is another, but the claim has uid"),
        (PARTS[:2], "parts: must be 1 to 3, not 1, 2"),
        ([*PARTS, PARTS[0]], "parts: must be 1 to 3, not 1, 1, 2, 3"),
        ([entry(SHORT, data="%")], "data: must be base64"),
        ([entry(SHORT, part="1")], "part: "),
        (
            [entry(SHORT, part=n + 1, parts=4, data="AAAA" * 2400) for n in range(4)],
            "28800 bytes: must be at most 16384 bytes",
        ),
    ],
    ids=["another claim", "a missing part", "a part twice", "no base64", "a wrong type", "too large"],
)
async def test_a_wrong_handle_is_refused_with_claim_and_driver(
    world: World, entries: list[AllocationConfig], problem: str
) -> None:
    claim = with_config(controlled("claim", "lamp-0", handle=None, uid="uid"), entries)
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        with pytest.raises(ClaimError) as refused:
            await process.prepare(claim)
        assert await process.rows() == []
    assert "claim default/claim (UID uid): request request-0: handle for driver lamp.example.com" in str(
        refused.value
    )
    assert problem in str(refused.value)
    assert driver.calls == []


async def test_a_handle_that_a_user_wrote_into_the_claim_is_an_unknown_configuration(world: World) -> None:
    claim = controlled("claim", "lamp-0", handle=None, uid="uid")
    claim = with_config(claim, [replace(SHORT, source="FromClaim")])
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        with pytest.raises(InvalidConfigError, match="ResourceHandle"):
            await process.prepare(claim)
        await record_hold(process.claims, claim)
        await process.unprepare(ref(claim))
    assert driver.unprepared == [None]


async def test_another_handle_for_the_same_devices_is_another_allocation(world: World) -> None:
    claim = controlled("claim", "lamp-0", handle=b"first")
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        first = await process.prepare(claim)
        assert await process.prepare(claim) == first
        assert driver.calls == ["prepare claim"]
        again = controlled("claim", "lamp-0", handle=b"second", uid=claim.metadata.uid)
        await process.prepare(again)
    assert driver.calls == ["prepare claim", "unprepare claim", "prepare claim"]
    assert (driver.prepared, driver.unprepared) == ([b"first", b"second"], [b"first"])


async def test_a_device_with_a_handle_causes_no_lookup_of_slices(world: World) -> None:
    claim = controlled("claim", "lamp-0", handle=HANDLE)
    async with world.running(driver=HandleDriver(world.hardware)) as process:
        world.api.failure = Unavailable("connection refused")
        await process.prepare(claim)


async def test_a_claim_whose_record_was_lost_is_prepared_again_with_its_handle(world: World) -> None:
    claim = world.api.add(controlled("claim", "lamp-0", handle=HANDLE))
    async with world.running(driver=HandleDriver(world.hardware)) as process:
        await process.prepare(claim)
    for path in world.root.glob("state.db*"):
        path.unlink()
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver, complete=False) as process:
        await process.rebuilder.ensure_complete()
        (row,) = await process.rows()
        world.api.delete(claim)
        await process.reconciler.collect()
        assert await process.rows() == []
    assert row.record.handles == [HANDLE]
    assert driver.prepared == driver.unprepared == [HANDLE]


async def test_a_claim_with_a_wrong_handle_does_not_stop_a_rebuild(world: World) -> None:
    wrong = world.api.add(with_config(controlled("wrong", "lamp-0", handle=None, uid="uid"), PARTS[1:]))
    fine = world.api.add(controlled("fine", "lamp-1", handle=HANDLE))
    world.hardware.update({each.metadata.uid: ("lamp",) for each in (wrong, fine)})
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver, complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert [row.record.name for row in await process.rows()] == ["fine"]
    assert driver.prepared == [HANDLE]


def test_a_record_of_before_has_no_handle() -> None:
    record = decode_record(b'{"uid":"u","devices":[{"request":"r","pool":"p","device":"d"}]}')
    (device,) = record.devices
    assert (record.handles, record.handle_of(device), device.shareable) == ([], None, False)


def test_a_record_without_a_handle_is_stored_as_before() -> None:
    """So an older version of the SDK reads it, and a newer version compares it as equal."""
    record = to_allocated_claim(allocated("claim", "lamp-0"), DRIVER, NODE).record
    assert b"handle" not in encode_record(record)
    assert b"shareable" not in encode_record(record)


def test_the_driver_sees_no_handle_in_the_repr_of_a_device() -> None:
    record: ClaimRecord = to_allocated_claim(controlled("c", "lamp-0", handle=b"secret"), DRIVER, NODE).record
    device = record.devices[0].to_allocated_device(None, (), record.handle_of(record.devices[0]))
    assert device.handle == b"secret"
    assert "secret" not in repr(device)
    assert device == replace_fields(device, handle=None)


def test_devices_of_64_full_entries_are_recorded_once_each() -> None:
    """20 handles of 16 KiB are the most that an allocation can have. A record has each of them once."""
    claim: ResourceClaim = controlled("claim", *(f"lamp-{n}" for n in range(20)), handle=None, uid="uid")
    entries = [
        part
        for n in range(20)
        for part in split_handle(DRIVER, "uid", bytes([n]) * MAX_HANDLE_BYTES, requests=[f"request-{n}"])
    ]
    record = to_allocated_claim(with_config(claim, entries), DRIVER, NODE).record
    assert [record.handle_of(device) for device in record.devices] == [
        bytes([n]) * MAX_HANDLE_BYTES for n in range(20)
    ]
    assert len(encode_record(record)) < 500_000
