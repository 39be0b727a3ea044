"""Contract of every implementation of `Fabric`; subclasses provide the implementation."""

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import pytest

from dradriver_fabric_cxl.fabric import (
    AttachFailedError,
    AttachmentIdentity,
    AttachRequest,
    AttachTimedOutError,
    Fabric,
    FabricAttachment,
    FabricConflictError,
    FabricError,
    FabricHealth,
    FabricPace,
    ManagerBusyError,
    MemoryRequest,
    NoCapacityError,
    ObjectNotFoundError,
    RequestRefusedError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault

CREATIONS = (FabricCall.CREATE_CHUNK, FabricCall.CREATE_CONNECTION)
SEEDS = 2 + int(os.environ.get("KILLS", "0")) // 20
"""`make faults` sets more."""
RANDOM_FAULTS = (
    FabricFault.BUSY,
    FabricFault.CONFLICT,
    FabricFault.REFUSED,
    FabricFault.REQUEST_LOST,
    FabricFault.ANSWER_LOST,
    FabricFault.TASK_FAILS,
    FabricFault.TASK_LOST,
)
POOL = "contract-suite"
PACE = FabricPace(attach=30, poll=0.005, look=0.005, appear=0.05)


class ImpatientTime:
    """Time that passes only in pauses, and there ten times faster.

    The pauses are long enough for a manager that works in a process of its own. Each task has its own time.
    Otherwise a task that looks for changes would use up the time of a task that attaches.
    """

    def __init__(self) -> None:
        self._now = WeakKeyDictionary[asyncio.Task[Any], float]()

    async def sleep(self, seconds: float) -> None:
        self._now[_this_task()] = self.clock() + seconds
        await asyncio.sleep(seconds / 10)

    def clock(self) -> float:
        return self._now.get(_this_task(), 0.0)

    def pace(self) -> FabricPace:
        return FabricPace(attach=20, poll=1, appear=5, sleep=self.sleep, clock=self.clock)


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


_numbers = itertools.count()


def new_identity() -> AttachmentIdentity:
    number = next(_numbers)
    return AttachmentIdentity(f"claim-{number}-{os.getpid()}", POOL, f"device-{number}", "2026-11-22T21:00:00Z")


class FabricBench(Protocol):
    """One fabric."""

    @property
    def fabric(self) -> Fabric: ...


class FaultyBench(FabricBench, Protocol):
    """One fabric, and its failures on demand."""

    @property
    def impatient(self) -> Fabric:
        """The same fabric, with short time limits."""

    async def fail(self, call: FabricCall, fault: FabricFault, times: int = 1) -> None: ...
    async def set_health(self, domain: str, health: FabricHealth) -> None: ...


async def request_memory(fabric: Fabric, *, host: int = 0, chunks: int = 1) -> AttachRequest:
    inventory = await fabric.inventory()
    domain = next(each for each in inventory.domains if each.makes_chunks)
    request = MemoryRequest(domain.id, chunks * domain.minimum)
    return AttachRequest(new_identity(), inventory.hosts[host].id, request)


async def request_accelerator(fabric: Fabric, *, host: int = 0) -> AttachRequest:
    inventory = await fabric.inventory()
    if not inventory.accelerators:
        pytest.skip("the fabric has no accelerator")
    return AttachRequest(new_identity(), inventory.hosts[host].id, inventory.accelerators[0].id)


async def find_attachments(fabric: Fabric, request: AttachRequest) -> list[FabricAttachment]:
    return [each for each in await fabric.attachments() if each.identity == request.identity]


async def count_chunks(fabric: Fabric, request: AttachRequest) -> int:
    """Chunks with the tag, also those that are not connected."""
    domains = (await fabric.inventory()).domains
    return sum(chunk.identity == request.identity for domain in domains for chunk in domain.chunks)


async def detach_patiently(fabric: Fabric, request: AttachRequest) -> None:
    """Detach as callers do: again after an error."""
    for _ in range(20):
        try:
            await fabric.detach(request.identity.tag)
        except FabricError:
            continue
        return
    pytest.fail("detach never succeeded")


async def detach_all(fabric: Fabric) -> None:
    """Remove what the suite attached; a real manager may have other attachments."""
    for attachment in await fabric.attachments():
        is_task_only = not attachment.host and not attachment.mebibytes  # it may never end
        if attachment.identity.pool == POOL and not is_task_only:
            await fabric.detach(attachment.identity.tag)


class FabricSuite:
    """What fabrics do. Attachments of a test are removed at its end."""

    @pytest.fixture(autouse=True)
    async def nothing_attached(self, bench: FabricBench) -> AsyncIterator[None]:
        yield
        await detach_all(bench.fabric)

    async def test_inventory_describes_domains_and_hosts(self, bench: FabricBench) -> None:
        inventory = await bench.fabric.inventory()
        assert inventory.fabric
        assert inventory.domains
        assert inventory.hosts
        for domain in inventory.domains:
            assert domain.mebibytes >= domain.minimum >= 1
            assert domain.minimum % domain.increment == 0
        for resources in (inventory.domains, inventory.hosts, inventory.accelerators):
            ids = [each.id for each in resources]
            assert ids == sorted(set(ids))
        assert len({host.system for host in inventory.hosts}) == len(inventory.hosts)

    async def test_attached_memory_is_connected_to_its_host(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        attachment = await bench.fabric.attach(request)
        assert isinstance(request.target, MemoryRequest)
        assert attachment.identity == request.identity
        assert attachment.host == request.host
        assert attachment.connected
        assert attachment.mebibytes == request.target.mebibytes
        assert await find_attachments(bench.fabric, request) == [attachment]

    async def test_each_attachment_has_its_own_serial_number(self, bench: FabricBench) -> None:
        first = await bench.fabric.attach(await request_memory(bench.fabric))
        second = await bench.fabric.attach(await request_memory(bench.fabric))
        assert first.serial is not None
        assert first.serial != second.serial

    async def test_a_chunk_is_part_of_its_domain(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        assert await count_chunks(bench.fabric, request) == 0
        await bench.fabric.attach(request)
        assert await count_chunks(bench.fabric, request) == 1

    async def test_attaching_again_changes_nothing(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        assert await bench.fabric.attach(request) == await bench.fabric.attach(request)
        assert await count_chunks(bench.fabric, request) == 1

    async def test_detaching_leaves_nothing(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fabric.attach(request)
        await bench.fabric.detach(request.identity.tag)
        assert await find_attachments(bench.fabric, request) == []
        assert await count_chunks(bench.fabric, request) == 0

    async def test_detaching_again_is_a_no_op(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fabric.detach(request.identity.tag)
        await bench.fabric.attach(request)
        await bench.fabric.detach(request.identity.tag)
        await bench.fabric.detach(request.identity.tag)

    async def test_detaching_leaves_another_attachment_alone(self, bench: FabricBench) -> None:
        mine, other = [await request_memory(bench.fabric) for _ in range(2)]
        await bench.fabric.attach(mine)
        before = await bench.fabric.attach(other)
        await bench.fabric.detach(mine.identity.tag)
        assert await find_attachments(bench.fabric, other) == [before]

    async def test_attaching_to_another_host_disconnects_the_first_one(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        moved = AttachRequest(request.identity, (await bench.fabric.inventory()).hosts[-1].id, request.target)
        await bench.fabric.attach(request)
        attachment = await bench.fabric.attach(moved)
        assert attachment.host == moved.host
        assert await find_attachments(bench.fabric, request) == [attachment]
        assert await count_chunks(bench.fabric, request) == 1

    async def test_an_accelerator_is_attached_without_a_chunk(self, bench: FabricBench) -> None:
        request = await request_accelerator(bench.fabric)
        attachment = await bench.fabric.attach(request)
        assert (attachment.host, attachment.connected, attachment.mebibytes) == (request.host, True, 0)
        assert attachment.serial is not None, "its host cannot find it"
        assert await find_attachments(bench.fabric, request) == [attachment]
        await bench.fabric.detach(request.identity.tag)
        assert await find_attachments(bench.fabric, request) == []

    async def test_several_attachments_are_made_at_the_same_time(self, bench: FabricBench) -> None:
        requests = [await request_memory(bench.fabric, host=host) for host in (0, 0, 1, 1)]
        made = await asyncio.gather(*(bench.fabric.attach(each) for each in requests))
        assert len({each.serial for each in made}) == len(requests)
        assert [each.host for each in made] == [each.host for each in requests]

    async def test_more_memory_than_the_domain_has_is_no_capacity(self, bench: FabricBench) -> None:
        domain = next(each for each in (await bench.fabric.inventory()).domains if each.makes_chunks)
        request = await request_memory(bench.fabric, chunks=domain.mebibytes // domain.minimum + 1)
        with pytest.raises(NoCapacityError):
            await bench.fabric.attach(request)
        assert await find_attachments(bench.fabric, request) == []

    async def test_a_host_has_room_for_as_many_attachments_as_it_tells(self, bench: FabricBench) -> None:
        room = (await bench.fabric.inventory()).hosts[0].max_attachments
        if room is None:
            pytest.skip("the manager does not tell it")
        *fitting, last = [await request_memory(bench.fabric) for _ in range(room + 1)]
        await asyncio.gather(*(bench.fabric.attach(each) for each in fitting))
        with pytest.raises(NoCapacityError):
            await bench.fabric.attach(last)

    @pytest.mark.parametrize("part", ["domain", "host", "accelerator"])
    async def test_an_unknown_resource_is_not_found(self, bench: FabricBench, part: str) -> None:
        request = await request_memory(bench.fabric)
        assert isinstance(request.target, MemoryRequest)
        unknown = {
            "domain": AttachRequest(request.identity, request.host, MemoryRequest("no-domain", 256)),
            "host": AttachRequest(request.identity, "no-host", request.target),
            "accelerator": AttachRequest(request.identity, request.host, "no-accelerator"),
        }
        with pytest.raises(ObjectNotFoundError):
            await bench.fabric.attach(unknown[part])

    async def test_changes_are_reported(self, bench: FabricBench) -> None:
        request = await request_memory(bench.fabric)
        async with aclosing(bench.fabric.changes()) as changes:
            await anext(changes)
            attaching = asyncio.create_task(bench.fabric.attach(request))
            while not [each for each in await find_attachments(bench.fabric, request) if each.connected]:
                await anext(changes)
            await attaching


class FaultSuite:
    """How fabrics survive failures of their manager."""

    @pytest.fixture(autouse=True)
    async def nothing_attached(self, bench: FaultyBench) -> AsyncIterator[None]:
        yield
        await detach_all(bench.fabric)

    @pytest.mark.parametrize("call", CREATIONS)
    @pytest.mark.parametrize(
        "fault",
        [
            FabricFault.BUSY,
            FabricFault.CONFLICT,
            FabricFault.REQUEST_LOST,
            FabricFault.ANSWER_LOST,
            FabricFault.TASK_FAILS,
            FabricFault.TASK_LOST,
        ],
    )
    async def test_one_failure_is_survived(
        self, bench: FaultyBench, call: FabricCall, fault: FabricFault
    ) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(call, fault)
        attachment = await bench.fabric.attach(request)
        assert attachment.connected
        assert await find_attachments(bench.fabric, request) == [attachment]
        assert await count_chunks(bench.fabric, request) == 1

    @pytest.mark.parametrize(
        "fault", [FabricFault.BUSY, FabricFault.CONFLICT, FabricFault.ANSWER_LOST, FabricFault.REQUEST_LOST]
    )
    async def test_a_failed_deletion_is_tried_again(self, bench: FaultyBench, fault: FabricFault) -> None:
        request = await request_memory(bench.fabric)
        await bench.fabric.attach(request)
        await bench.fail(FabricCall.DELETE, fault)
        await bench.fabric.detach(request.identity.tag)
        assert await find_attachments(bench.fabric, request) == []

    @pytest.mark.parametrize("fault", [FabricFault.TASK_FAILS, FabricFault.TASK_LOST])
    async def test_a_failed_task_of_a_deletion_is_asked_for_again(
        self, bench: FaultyBench, fault: FabricFault
    ) -> None:
        request = await request_memory(bench.fabric)
        await bench.fabric.attach(request)
        await bench.fail(FabricCall.DELETE, fault)
        await bench.fabric.detach(request.identity.tag)
        assert await find_attachments(bench.fabric, request) == []

    @pytest.mark.parametrize("call", CREATIONS)
    async def test_a_task_that_fails_twice_fails_the_attachment(
        self, bench: FaultyBench, call: FabricCall
    ) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(call, FabricFault.TASK_FAILS, times=2)
        with pytest.raises(AttachFailedError):
            await bench.fabric.attach(request)
        assert not any(each.connected for each in await find_attachments(bench.fabric, request))

    @pytest.mark.parametrize("call", CREATIONS)
    @pytest.mark.parametrize(
        ("fault", "error"),
        [(FabricFault.NO_CAPACITY, NoCapacityError), (FabricFault.REFUSED, RequestRefusedError)],
    )
    async def test_a_final_answer_is_raised_at_once(
        self, bench: FaultyBench, call: FabricCall, fault: FabricFault, error: type[Exception]
    ) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(call, fault)
        with pytest.raises(error):
            await bench.fabric.attach(request)

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (FabricFault.BUSY, ManagerBusyError),
            (FabricFault.CONFLICT, FabricConflictError),
            (FabricFault.TASK_HANGS, AttachTimedOutError),
        ],
    )
    async def test_a_failure_that_stays_ends_with_the_time(
        self, bench: FaultyBench, fault: FabricFault, error: type[Exception]
    ) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(FabricCall.CREATE_CHUNK, fault, times=1_000_000)
        with pytest.raises(error):
            await bench.impatient.attach(request)

    async def test_a_task_that_never_ends_does_not_keep_the_chunk(self, bench: FaultyBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(FabricCall.CREATE_CONNECTION, FabricFault.TASK_HANGS)
        with pytest.raises(AttachTimedOutError):
            await bench.impatient.attach(request)
        assert await count_chunks(bench.fabric, request) == 1
        await bench.impatient.detach(request.identity.tag)
        assert await count_chunks(bench.fabric, request) == 0
        assert [each.mebibytes for each in await find_attachments(bench.fabric, request)] == [0]

    async def test_a_chunk_without_a_connection_is_found_and_removed(self, bench: FaultyBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(FabricCall.CREATE_CONNECTION, FabricFault.REFUSED)
        with pytest.raises(RequestRefusedError):
            await bench.fabric.attach(request)
        (attachment,) = await find_attachments(bench.fabric, request)
        assert (attachment.host, attachment.connected) == (None, False)
        await bench.fabric.detach(request.identity.tag)
        assert await find_attachments(bench.fabric, request) == []

    async def test_the_next_attach_continues_from_what_exists(self, bench: FaultyBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(FabricCall.CREATE_CONNECTION, FabricFault.REFUSED)
        with pytest.raises(RequestRefusedError):
            await bench.fabric.attach(request)
        assert (await bench.fabric.attach(request)).connected
        assert await count_chunks(bench.fabric, request) == 1

    async def test_a_busy_manager_is_asked_again(self, bench: FaultyBench) -> None:
        request = await request_memory(bench.fabric)
        await bench.fail(FabricCall.READ, FabricFault.BUSY)
        assert (await bench.fabric.attach(request)).connected

    async def test_health_of_a_domain_is_reported(self, bench: FaultyBench) -> None:
        domain = (await bench.fabric.inventory()).domains[0].id
        for health in (FabricHealth.WARNING, FabricHealth.CRITICAL, FabricHealth.OK):
            await bench.set_health(domain, health)
            domains = {each.id: each.health for each in (await bench.fabric.inventory()).domains}
            assert domains[domain] is health

    @pytest.mark.parametrize("seed", range(SEEDS))
    async def test_random_failures_leave_only_what_was_attached(self, bench: FaultyBench, seed: int) -> None:
        chance = random.Random(seed)
        hosts = len((await bench.fabric.inventory()).hosts)
        requests = [await request_memory(bench.fabric, host=number % hosts) for number in range(6)]
        for _ in range(12):
            await bench.fail(chance.choice([*CREATIONS, FabricCall.DELETE]), chance.choice(RANDOM_FAULTS))
        results = await asyncio.gather(
            *(bench.fabric.attach(each) for each in requests), return_exceptions=True
        )
        attached = [each for each in results if isinstance(each, FabricAttachment)]
        for request, result in zip(requests, results, strict=True):
            if not isinstance(result, FabricAttachment):
                assert isinstance(result, FabricError)
                await detach_patiently(bench.fabric, request)
        mine = {request.identity for request in requests}
        found = [each for each in await bench.fabric.attachments() if each.identity in mine]
        assert sorted(found, key=lambda each: each.identity.tag) == sorted(
            attached, key=lambda each: each.identity.tag
        )
        for request in requests:
            wanted = any(each.identity == request.identity for each in attached)
            assert await count_chunks(bench.fabric, request) == wanted
            await detach_patiently(bench.fabric, request)


class ForgetfulSuite:
    """What happens on a manager that keeps no tags."""

    async def test_an_object_without_its_tag_is_removed(self, forgetful: Fabric) -> None:
        request = await request_memory(forgetful)
        with pytest.raises(TagNotKeptError):
            await forgetful.attach(request)
        assert all(not domain.chunks for domain in (await forgetful.inventory()).domains)
