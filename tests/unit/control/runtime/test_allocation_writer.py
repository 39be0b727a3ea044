"""An allocation that is stored without one of its fields is an error, which names the field and its gate."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.allocation_writer import AllocationWriter, Operation
from dradriver.control.runtime.gated_fields import GATED_FIELDS, SPECIAL_CLAIM, GatedField
from dradriver.errors import DraError
from dradriver.kube import ApiError
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import (
    Allocation,
    ClaimStatus,
    DeviceAllocation,
    DeviceResult,
    DeviceToleration,
    ResourceClaim,
)
from dradriver.testing import builders

DEVICE = DeviceResult(request="gpu", driver="d.example.com", pool="p", device="gpu-0")
FIELDS: Mapping[str, object] = {
    "admin_access": True,
    "binding_conditions": ["ready"],
    "binding_failure_conditions": ["broken"],
    "compatibility_groups": {"gpu-0": ["mig"]},
    "consumed_capacity": {"memory": Quantity.parse("1Gi")},
    "share_id": "b5a8a1c4-7d3c-4a0e-9a65-d9c3b1c7c0de",
    "skip_node_operations": ["PrepareResources"],
    "tolerations": [DeviceToleration(key="bad", operator="Exists")],
}
RESERVE: Operation = {"op": "add", "path": "/status/reservedFor", "value": []}


def allocation(*attributes: str) -> Allocation:
    """Return an allocation of two devices; the second uses the fields."""
    full = replace(DEVICE, **{name: FIELDS[name] for name in attributes})
    return Allocation(devices=DeviceAllocation(results=[DEVICE, full]))


class Server:
    """An API server that drops fields.

    Attributes:
        dropped: the names of the attributes of the fields.
        keeps_in_dry_runs: whether a dry run does not drop them, as another server answers it.
        requests: whether each request was a dry run.
        written: the claims that were noted as written.
    """

    def __init__(self, *dropped: str) -> None:
        self.dropped = dropped
        self.keeps_in_dry_runs = False
        self.refusal: ApiError | None = None
        self.requests: list[bool] = []
        self.written: list[ResourceClaim] = []
        self.writer = AllocationWriter(self.send, self.written.append)

    async def send(
        self, claim: ResourceClaim, operations: Sequence[Operation], *, dry_run: bool = False
    ) -> ResourceClaim:
        self.requests.append(dry_run)
        if dry_run and self.refusal is not None:
            raise self.refusal
        sent = cast(Allocation, operations[0]["value"])
        if not (dry_run and self.keeps_in_dry_runs):
            empty: dict[str, Any] = {name: getattr(DEVICE, name) for name in self.dropped}
            results = [replace(result, **empty) for result in sent.devices.results]
            sent = replace(sent, devices=replace(sent.devices, results=results))
        return replace(claim, status=ClaimStatus(allocation=sent))

    async def write(self, *attributes: str) -> None:
        await self.writer.write(builders.claim(), allocation(*attributes), RESERVE)


def field_of(attribute: str) -> GatedField:
    path = "".join(word.capitalize() for word in attribute.split("_"))
    name = "shareID" if attribute == "share_id" else path[0].lower() + path[1:]
    return next(field for field in GATED_FIELDS if field.path == f"status.allocation.devices.results[].{name}")


def test_the_cases_are_all_fields_of_results() -> None:
    assert {field_of(attribute) for attribute in FIELDS} == set(GATED_FIELDS) - {SPECIAL_CLAIM}


@pytest.mark.parametrize("attribute", FIELDS)
async def test_the_error_about_a_dropped_field_names_claim_field_and_gate(attribute: str) -> None:
    server, field = Server(attribute), field_of(attribute)
    server.keeps_in_dry_runs = True
    with pytest.raises(DraError) as caught:
        await server.write(attribute)
    problem = f"the API server does not store the field: the feature gate {field.gate} is off"
    assert str(caught.value) == f"claim {builders.claim().ref}: {field.path}: {problem}"
    # The cache has the stored allocation, so that it can be reverted.
    assert [claim.allocation for claim in server.written] == [allocation()]


@pytest.mark.parametrize("attribute", sorted(FIELDS.keys() - {"compatibility_groups"}))
async def test_a_field_that_is_stored_costs_one_request(attribute: str) -> None:
    server = Server()
    await server.write(attribute)
    assert server.requests == [False]


async def test_an_allocation_without_the_dropped_field_is_written() -> None:
    server = Server("binding_conditions")
    await server.write("tolerations", "share_id")
    assert server.requests == [False]


async def test_after_a_dropped_field_only_a_dry_run_is_sent_until_the_field_is_stored() -> None:
    """Otherwise each attempt for the pod would allocate the devices and release them."""
    server = Server("binding_conditions")
    for _ in range(3):
        with pytest.raises(DraError, match="DRADeviceBindingConditions is off"):
            await server.write("binding_conditions", "binding_failure_conditions")
    assert server.requests == [False, True, True]
    await server.write("tolerations")
    server.dropped = ()
    await server.write("binding_conditions")
    await server.write("binding_conditions")
    assert server.requests[3:] == [False, True, False, False]


async def test_if_dry_runs_are_not_supported_the_write_is_checked() -> None:
    server = Server("share_id")
    server.refusal = ApiError("a webhook does not support dry run", status=400)
    for _ in range(2):
        with pytest.raises(DraError, match="DRAConsumableCapacity is off"):
            await server.write("share_id")
    assert server.requests == [False, True, False]
