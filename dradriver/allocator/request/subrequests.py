"""Parses the requests of claims for the search and rejects claims that no node can serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from dradriver.allocator.explain.refusal import Kind, Reason, ReasonCode, Refusal
from dradriver.allocator.features import Features
from dradriver.allocator.meter import BudgetSpentError, Meter
from dradriver.allocator.request.selectors import Deriver, Matcher, SelectorProvider
from dradriver.cel.evaluate.errors import CompileError
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import (
    MAX_RESULTS,
    DerivedAttribute,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["ParsedRequest", "PreparedSelector", "Subrequest", "parse_requests", "too_many_refusal"]


@dataclass(frozen=True, slots=True)
class PreparedSelector:
    """A compiled selector of a class or a request. `label` is its name in messages."""

    label: str
    expression: str
    matches: Matcher


@dataclass(frozen=True, slots=True, eq=False)
class Subrequest:
    """A request, or one alternative of a `firstAvailable` request.

    Attributes:
        claim: index of the claim among the claims to allocate.
        name: the name of the request in allocation results: `gpu` or `gpu/large`.
        device_class: the device class.
        selections: the selectors of the class, followed by the selectors of the request.
        count: number of devices; None means all devices that match.
        admin: whether the request may get devices that are in use.
        tolerations: the tolerated taints.
        capacity: the requested amount of each capacity, by name (KEP-5075).
        derived: the attributes that the request derives with CEL expressions, by name (KEP-6080).
    """

    claim: int
    name: str
    device_class: DeviceClass
    selections: tuple[PreparedSelector, ...]
    count: int | None
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    derived: Mapping[str, Deriver] = field(default_factory=dict)

    @property
    def kind(self) -> object:
        """Return a key. If two subrequests have equal keys, the same devices can serve them."""
        tolerations = tuple((t.key, t.operator, t.value, t.effect) for t in self.tolerations)
        expressions = tuple(selection.expression for selection in self.selections)
        capacity = tuple(sorted(self.capacity.items(), key=itemgetter(0)))
        return self.device_class.metadata.name, expressions, self.admin, tolerations, capacity


@dataclass(frozen=True, slots=True, eq=False)
class ParsedRequest:
    """A request with its alternatives in order of preference. A plain request has one alternative."""

    claim: int
    name: str
    alternatives: tuple[Subrequest, ...]

    @property
    def least(self) -> int:
        """Return the smallest number of devices that the request can need on any node."""
        return min(1 if each.count is None else each.count for each in self.alternatives)


def parse_requests(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features,
    provider: SelectorProvider,
    meter: Meter,
) -> list[ParsedRequest]:
    """Return the requests of all claims, in the order in which Kubernetes serves them.

    Args:
        claims: the claims to allocate.
        classes: all device classes by name.
        features: the enabled features.
        provider: compiles selectors and derived attributes.
        meter: counts the work.

    Raises:
        Refusal: no node can ever serve a request (`claim`), or the work exceeds the budget (`undecided`).
    """
    requests = []
    for index, claim in enumerate(claims):
        parser = _RequestParser(index, claim, classes, features, provider, meter)
        try:
            own_requests = [parser.parse(request) for request in claim.spec.devices.requests]
        except BudgetSpentError:
            raise meter.refusal() from None
        least = sum(request.least for request in own_requests)
        if least > MAX_RESULTS:
            raise too_many_refusal("claim", claim, least)
        requests += own_requests
    return requests


def too_many_refusal(kind: Kind, claim: ResourceClaim, least: int, node: str = "") -> Refusal:
    """Return the refusal for a claim that needs at least `least` devices, which is too many for one claim."""
    return Refusal(
        kind,
        f"claim {claim.ref}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}",
        claim=claim.ref,
        node=node,
        reasons=[
            Reason("too-many", f"at least {least} devices are needed, a claim can hold at most {MAX_RESULTS}")
        ],
    )


@dataclass(frozen=True, slots=True)
class _RequestParser:
    index: int
    claim: ResourceClaim
    classes: Mapping[str, DeviceClass]
    features: Features
    provider: SelectorProvider
    meter: Meter

    def parse(self, request: DeviceRequest) -> ParsedRequest:
        if request.exactly is not None:
            alternatives: tuple[Subrequest, ...] = (self._parse_subrequest(request.name, request.exactly),)
        elif request.first_available:
            self._require("prioritized_list", request.name, "has subrequests")
            alternatives = tuple(
                self._parse_subrequest(f"{request.name}/{sub.name}", sub) for sub in request.first_available
            )
        else:
            raise self._refusal(request.name, "unsupported", "neither exactly nor firstAvailable is set")
        return ParsedRequest(self.index, request.name, alternatives)

    def _parse_subrequest(self, name: str, spec: ExactDeviceRequest | DeviceSubRequest) -> Subrequest:
        admin = spec.admin_access if isinstance(spec, ExactDeviceRequest) else None
        if admin is not None:
            self._require("admin_access", name, "asks for admin access")
        if spec.capacity is not None:
            self._require("consumable_capacity", name, "has capacity requests")
        if spec.derived_attributes:
            self._require("derived_attributes", name, "has derived attributes")
        device_class = self.classes.get(spec.device_class_name)
        if device_class is None:
            raise self._refusal(name, "class", f"device class {spec.device_class_name} does not exist")
        return Subrequest(
            claim=self.index,
            name=name,
            device_class=device_class,
            selections=(
                *self._compile_selectors(name, device_class.spec.selectors, f"class {spec.device_class_name}"),
                *self._compile_selectors(name, spec.selectors, "the request"),
            ),
            count=spec.count if spec.allocation_mode == "ExactCount" else None,
            admin=bool(admin),
            tolerations=tuple(spec.tolerations),
            capacity=spec.capacity.requests if spec.capacity else {},
            derived={each.name: self._compile_derived(name, each) for each in spec.derived_attributes},
        )

    def _compile_derived(self, name: str, attribute: DerivedAttribute) -> Deriver:
        try:
            return self.provider.derive(attribute.expression, self.meter)
        except CompileError as error:
            text = f"derived attribute {attribute.name}: {error}"
            raise self._refusal(name, "selector-error", text) from error

    def _compile_selectors(
        self, name: str, selectors: Sequence[DeviceSelector], owner: str
    ) -> list[PreparedSelector]:
        compiled = []
        for number, selector in enumerate(selectors, 1):
            label = f"selector {number} of {owner}"
            if selector.cel is None:
                raise self._refusal(name, "unsupported", f"{label} has no CEL expression")
            try:
                matcher = self.provider.compile(selector.cel.expression, self.meter)
            except CompileError as error:
                raise self._refusal(name, "selector-error", f"{label}: {error}") from error
            compiled.append(PreparedSelector(label, selector.cel.expression, matcher))
        return compiled

    def _require(self, feature: str, request: str, use: str) -> None:
        """Raise a refusal if the request uses a feature that is off."""
        if not getattr(self.features, feature):
            text = f"{use}, but the {self.features.gate(feature)} feature is disabled"
            raise self._refusal(request, "feature-gate", text)

    def _refusal(self, request: str, code: ReasonCode, text: str) -> Refusal:
        return Refusal(
            "claim",
            f"claim {self.claim.ref}, request {request}: {text}",
            claim=self.claim.ref,
            request=request,
            reasons=[Reason(code, text)],
        )
