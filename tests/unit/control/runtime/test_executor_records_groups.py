"""Compatibility groups are recorded in the KEP's field, or in the configuration where that is dropped."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.actions import Allocate
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.errors import DraError
from dradriver.kube import ApiError, Client, Conflict, EventRecorder
from dradriver.model.resource.claim import (
    Allocation,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.recorded_groups import groups_in_force, record_groups_in_config
from dradriver.testing import builders

POD = ConsumerReference(resource="pods", name="pod", uid="uid")


def allocation(groups: dict[str, list[str]]) -> Allocation:
    result = DeviceResult(
        request="gpu", driver="d.example.com", pool="p", device="mig-0", compatibility_groups=groups
    )
    return Allocation(devices=DeviceAllocation(results=[result]))


GROUPED = allocation({"gpu-0": ["mig"]})


class Server:
    """An API server that stores or drops compatibility groups.

    Attributes:
        keeps: whether each request stores the field; the last value repeats.
        refuses: the error of dry runs.
        stored: the allocations of writes.
        tried: the allocations of dry runs.
    """

    def __init__(self, *keeps: bool, refuses: ApiError | None = None) -> None:
        self.keeps = list(keeps)
        self.refuses = refuses
        self.stored: list[Allocation] = []
        self.tried: list[Allocation] = []

    async def patch(self, *given: Any, dry_run: bool = False, **_: object) -> ResourceClaim:
        operations: list[Mapping[str, Any]] = given[3]
        sent = next(each["value"] for each in operations if each["path"] == "/status/allocation")
        (self.tried if dry_run else self.stored).append(sent)
        if dry_run and self.refuses is not None:
            raise self.refuses
        keeps = self.keeps.pop(0) if len(self.keeps) > 1 else self.keeps[0]
        results = [each if keeps else replace(each, compatibility_groups={}) for each in sent.devices.results]
        answer = replace(sent, devices=replace(sent.devices, results=results))
        return replace(builders.claim(), status=ClaimStatus(allocation=answer))

    async def get(self, *_: object, **__: object) -> ResourceClaim:
        return builders.claim()


async def allocate(server: Server, wanted: Allocation = GROUPED) -> bool:
    client = cast(Client, server)
    executor = Executor(client, Caches(client), cast(EventRecorder, None))
    return await executor.execute(Allocate(builders.claim(), wanted, POD))


async def test_groups_are_recorded_in_the_field_if_it_is_stored() -> None:
    server = Server(True)
    assert await allocate(server)
    assert (server.tried, server.stored) == ([GROUPED], [GROUPED])


async def test_groups_are_recorded_in_the_configuration_if_the_field_is_dropped() -> None:
    """Kubernetes 1.37: the dry run is answered, without the field."""
    server = Server(False)
    assert await allocate(server)
    assert (server.tried, server.stored) == ([GROUPED], [record_groups_in_config(GROUPED)])
    assert groups_in_force(server.stored[0]) == groups_in_force(GROUPED)


async def test_devices_without_groups_need_no_dry_run() -> None:
    server = Server(False)
    assert await allocate(server, allocation({}))
    assert (server.tried, server.stored) == ([], [allocation({})])


@pytest.mark.parametrize("status", [400, 422])
async def test_groups_are_recorded_in_the_configuration_if_the_dry_run_is_rejected(status: int) -> None:
    """A webhook does not support dry runs, or the server rejects the field."""
    server = Server(False, refuses=ApiError("no", status=status))
    assert await allocate(server)
    assert server.stored == [record_groups_in_config(GROUPED)]


async def test_a_conflict_needs_a_new_decision() -> None:
    server = Server(True, refuses=Conflict("changed", status=409))
    assert not await allocate(server)
    assert server.stored == []


async def test_a_write_that_drops_groups_after_a_successful_dry_run_is_an_error() -> None:
    """Of two API servers, one has the gate off. The devices must not be used without their record."""
    with pytest.raises(DraError, match="compatibilityGroups: the API server does not store the field"):
        await allocate(Server(True, False))
