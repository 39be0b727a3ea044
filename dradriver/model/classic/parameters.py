"""`ControllerClass` and `ControllerClaim`: the opaque configuration that makes a claim classic.

Both are in `opaque` entries of the driver `names.GROUP`: the first in `DeviceClass.spec.config`, the second in
`ResourceClaim.spec.devices.config`.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.classic.names import API_VERSION, GROUP
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.encoding.strict import unknown_fields
from dradriver.model.names import driver_name
from dradriver.model.resource.claim import OpaqueConfig, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = [
    "NEVER",
    "AllocationTime",
    "ControllerClaim",
    "ControllerClass",
    "ParametersReference",
    "read_claim_parameters",
    "read_class_parameters",
]

AllocationTime = Literal["WaitForFirstConsumer", "Immediate"]
"""When a claim is allocated (KEP-3063, `AllocationMode`)."""

NEVER: Final = "false"
"""The only selector of a class of a controller, so that no scheduler allocates devices of slices for it."""


class ParametersReference(Value, frozen=True, kw_only=True):
    """A reference to an object with parameters (`ResourceClassParametersReference`).

    Attributes:
        api_group: the API group; empty for the core group.
        kind: the kind.
        name: the name.
        namespace: the namespace. Only a class may set it: a claim refers to objects of its own namespace.
    """

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class ControllerClass(Value, frozen=True, kw_only=True):
    """A class whose claims a controller allocates (KEP-3063, `ResourceClass`).

    Attributes:
        controller_name: the controller's name.
        suitable_nodes: the nodes on which the resource may be available. None: all nodes.
        parameters: parameters of the class for the controller, as JSON.
        parameters_ref: an object with parameters for the controller.
    """

    controller_name: str
    suitable_nodes: NodeSelector | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    parameters_ref: ParametersReference | None = None


class ControllerClaim(Value, frozen=True, kw_only=True):
    """Parameters of a claim for its controller (KEP-3063, `ResourceClaimSpec`).

    Attributes:
        allocation_mode: when the claim is allocated.
        parameters: parameters of the claim for the controller, as JSON.
        parameters_ref: an object with parameters for the controller, in the claim's namespace.
    """

    allocation_mode: AllocationTime = "WaitForFirstConsumer"
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    parameters_ref: ParametersReference | None = None


class _TypeMeta(Value, frozen=True):
    api_version: str = ""
    kind: str = ""


_P = TypeVar("_P", ControllerClass, ControllerClaim)


def read_class_parameters(device_class: DeviceClass) -> ControllerClass | None:
    """Return the controller's entry of a class; None if the class has none, so that it is not classic.

    Raises:
        InvalidObjectError: the class has two entries, an entry is wrong, or the class can be allocated from
            slices too: its only selector must be `false`, and it must have no extended resource.
    """
    subject = f"DeviceClass {device_class.metadata.name}"
    spec = device_class.spec
    found = _read_entries(ControllerClass, (each.opaque for each in spec.config), "spec.config", subject)
    if not found:
        return None
    problems = []
    if len(found) > 1:
        problems.append(Problem("spec.config", f"must have exactly one {ControllerClass.__name__}"))
    entry = next(iter(found.values()))
    if rule := driver_name(entry.controller_name):
        problems.append(Problem(f"{next(iter(found))}.controllerName", rule))
    selectors = [each.cel.expression.strip() for each in spec.selectors if each.cel is not None]
    if selectors != [NEVER]:
        rule = f"must be exactly one CEL expression `{NEVER}`, or schedulers allocate any device for this class"
        problems.append(Problem("spec.selectors", rule))
    if spec.extended_resource_name:
        rule = "must not be set: extended resources are allocated from slices"
        problems.append(Problem("spec.extendedResourceName", rule))
    if problems:
        raise InvalidObjectError(subject, problems)
    return entry


def read_claim_parameters(claim: ResourceClaim) -> dict[tuple[str, ...], ControllerClaim]:
    """Return the entries of a claim for its controller, each by the requests that it applies to.

    An empty tuple of requests means all requests of the claim.

    Raises:
        InvalidObjectError: an entry is wrong, two entries have the same requests, or their allocation modes
            differ: the mode applies to the whole claim.
    """
    subject, config = f"ResourceClaim {claim.ref}", claim.spec.devices.config
    found = _read_entries(ControllerClaim, (each.opaque for each in config), "spec.devices.config", subject)
    by_path = {f"spec.devices.config[{index}].opaque.parameters": each for index, each in enumerate(config)}
    entries: dict[tuple[str, ...], ControllerClaim] = {}
    problems = []
    for path, entry in found.items():
        requests = tuple(sorted(by_path[path].requests))
        if requests in entries:
            problems.append(Problem(path, "has the same requests as an earlier entry"))
        entries.setdefault(requests, entry)
    if len({each.allocation_mode for each in entries.values()}) > 1:
        rule = "allocationMode must be the same in all entries, because it applies to the whole claim"
        problems.append(Problem("spec.devices.config", rule))
    if any(entry.parameters_ref is not None and entry.parameters_ref.namespace for entry in entries.values()):
        rule = "parametersRef.namespace must not be set: a claim refers to objects of its own namespace"
        problems.append(Problem("spec.devices.config", rule))
    if problems:
        raise InvalidObjectError(subject, problems)
    return entries


def _read_entries(
    kind: type[_P], configs: Iterable[OpaqueConfig | None], path: str, subject: str
) -> dict[str, _P]:
    """Return the entries of a kind, each by the path of its parameters."""
    found = {}
    for index, opaque in enumerate(configs):
        if opaque is None or opaque.driver != GROUP:
            continue
        at = f"{path}[{index}].opaque.parameters"
        try:
            found[at] = _read_entry(kind, bytes(opaque.parameters))
        except InvalidObjectError as error:
            raise InvalidObjectError(subject, [problem.under(at) for problem in error.problems]) from None
    return found


def _read_entry(kind: type[_P], raw: bytes) -> _P:
    """Return an entry.

    Raises:
        InvalidObjectError: the entry is wrong. The paths of the problems begin in the parameters.
    """
    meta = decode(_TypeMeta, raw)
    if (meta.api_version, meta.kind) != (API_VERSION, kind.__name__):
        rule = f"must be a {kind.__name__} of {API_VERSION}, not {meta.kind} of {meta.api_version}"
        raise InvalidObjectError(kind.__name__, [Problem("", rule)])
    body: dict[str, Any] = decode(dict[str, Any], raw)
    fields = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    if unknown := unknown_fields(kind, fields):
        rule = f"{kind.__name__} has no such field"
        raise InvalidObjectError(kind.__name__, [Problem(name, rule) for name in unknown])
    return decode(kind, raw)
