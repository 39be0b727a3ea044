"""The fields of the scheduler's writes that an API server drops silently if their feature gate is off.

A claim without such a field would be used in another way than planned: for example, a pod would not wait for
its binding conditions. So a write without its fields fails, and its plan is given up before the pod is bound.

`status.allocation.allocationTimestamp` is not in the table. If an API server does not store it, the wait for
binding conditions is counted from the moment at which the claim's first pod began to wait.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from dradriver.errors import DraError
from dradriver.model.resource.claim import Allocation

__all__ = ["GATED_FIELDS", "SPECIAL_CLAIM", "GatedField", "dropped_field_error", "find_gated", "find_missing"]

_RESULTS: Final = "status.allocation.devices.results[]."


@dataclass(frozen=True, slots=True)
class GatedField:
    """A field with a feature gate.

    Attributes:
        path: the field in its object.
        gate: the feature gate of the API server.
    """

    path: str
    gate: str


SPECIAL_CLAIM: Final = GatedField("status.extendedResourceClaimStatus", "DRAExtendedResource")
"""The field of a pod that names its special claim."""

_FIELDS_OF_RESULTS: Final[Mapping[str, GatedField]] = {
    "admin_access": GatedField(f"{_RESULTS}adminAccess", "DRAAdminAccess"),
    "binding_conditions": GatedField(f"{_RESULTS}bindingConditions", "DRADeviceBindingConditions"),
    "binding_failure_conditions": GatedField(
        f"{_RESULTS}bindingFailureConditions", "DRADeviceBindingConditions"
    ),
    "compatibility_groups": GatedField(f"{_RESULTS}compatibilityGroups", "DRADeviceCompatibilityGroups"),
    "consumed_capacity": GatedField(f"{_RESULTS}consumedCapacity", "DRAConsumableCapacity"),
    "share_id": GatedField(f"{_RESULTS}shareID", "DRAConsumableCapacity"),
    "skip_node_operations": GatedField(f"{_RESULTS}skipNodeOperations", "DRAOptionalNodeOperations"),
    "tolerations": GatedField(f"{_RESULTS}tolerations", "DRADeviceTaints"),
}
"""The fields of an allocation result, by the name of the attribute of `DeviceResult`."""

_READERS: Final = [(attrgetter(name), field) for name, field in _FIELDS_OF_RESULTS.items()]

GATED_FIELDS: Final[Collection[GatedField]] = (*_FIELDS_OF_RESULTS.values(), SPECIAL_CLAIM)
"""All fields of the table."""


def find_gated(allocation: Allocation | None) -> list[GatedField]:
    """Return the fields of the table that the results of an allocation use, in the order of the table."""
    results = allocation.devices.results if allocation is not None else []
    return [field for read, field in _READERS if any(map(read, results))]


def find_missing(sent: Allocation, stored: Allocation | None) -> list[GatedField]:
    """Return the fields that the API server has dropped from the results of an allocation.

    An API server drops a field from all results. Values are not compared, because the API server rejects a
    value that it does not accept.

    Args:
        sent: the allocation that was sent.
        stored: the allocation in the answer.
    """
    kept = find_gated(stored)
    return [field for field in find_gated(sent) if field not in kept]


def dropped_field_error(subject: str, field: GatedField) -> DraError:
    """Return the error about an object that was stored without a field.

    Args:
        subject: kind and name of the object, such as `claim default/gpu`.
        field: the field that was sent.
    """
    problem = f"the API server does not store the field: the feature gate {field.gate} is off"
    return DraError(f"{subject}: {field.path}: {problem}")
