"""Parses the requests of claims for the search and rejects claims that no node can serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from dradriver.allocator.explain.refusal import Kind, Reason, ReasonCode, Refusal
from dradriver.allocator.features import Features
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

__all__ = ["ParsedRequest", "PreparedSelector", "Subrequest", "requests_of", "too_many"]


@dataclass(frozen=True, slots=True)
class PreparedSelector:
    """A compiled selector of a class or a request; `label` names it in messages."""

    label: str
    expression: str
    matches: Matcher


@dataclass(frozen=True, slots=True, eq=False)
class Subrequest:
    """A request, or one alternative of a `firstAvailable` request.

    Attributes:
        claim: index of the claim among the claims to allocate.
        name: the name in results: `gpu` or `gpu/large`.
        device_class: the class.
        selections: the selectors of the class, then those of the request.
        count: number of devices; None means all devices that match.
        admin: whether the request may get devices that are in use.
        tolerations: the tolerated taints.
        capacity: the requested amount of each capacity, by name (KEP-5075).
        derived: the attributes that the request computes itself, by name (KEP-6080).
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
        """Return a value that is equal for subrequests that the same devices can serve."""
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


def requests_of(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features,
    provider: SelectorProvider,
) -> list[ParsedRequest]:
    """Return the requests of all claims, in the order in which Kubernetes serves them.

    Args:
        claims: the claims to allocate.
        classes: all device classes by name.
        features: the enabled features.
        provider: compiles selectors and derived attributes.

    Raises:
        Refusal: of kind `claim`, if no node can ever serve a request.
    """
    requests = []
    for index, claim in enumerate(claims):
        reader = _Reader(index, claim, classes, features, provider)
        mine = [reader.request(request) for request in claim.spec.devices.requests]
        least = sum(min(ask.count if ask.count is not None else 1 for ask in r.alternatives) for r in mine)
        if least > MAX_RESULTS:
            raise too_many("claim", claim, least)
        requests += mine
    return requests


def too_many(kind: Kind, claim: ResourceClaim, least: int, node: str = "") -> Refusal:
    """Return the refusal for a claim that needs at least `least` devices, more than one claim can hold."""
    return Refusal(
        kind,
        f"claim {claim.ref}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}",
        claim=claim.ref,
        node=node,
        reasons=[Reason("too-many", f"at least {least} devices are asked for, a claim holds {MAX_RESULTS}")],
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    index: int
    claim: ResourceClaim
    classes: Mapping[str, DeviceClass]
    features: Features
    provider: SelectorProvider

    def request(self, request: DeviceRequest) -> ParsedRequest:
        if request.exactly is not None:
            alternatives: tuple[Subrequest, ...] = (self._ask(request.name, request.exactly),)
        elif request.first_available:
            if not self.features.prioritized_list:
                raise self._wrong(
                    request.name, "feature-gate", self._off("has subrequests", "prioritized_list")
                )
            alternatives = tuple(
                self._ask(f"{request.name}/{sub.name}", sub) for sub in request.first_available
            )
        else:
            raise self._wrong(request.name, "unsupported", "neither exactly nor firstAvailable is set")
        return ParsedRequest(self.index, request.name, alternatives)

    def _ask(self, name: str, wish: ExactDeviceRequest | DeviceSubRequest) -> Subrequest:
        admin = wish.admin_access if isinstance(wish, ExactDeviceRequest) else None
        if admin is not None and not self.features.admin_access:
            raise self._wrong(name, "feature-gate", self._off("asks for admin access", "admin_access"))
        if wish.capacity is not None and not self.features.consumable_capacity:
            raise self._wrong(name, "feature-gate", self._off("has capacity requests", "consumable_capacity"))
        if wish.derived_attributes and not self.features.derived_attributes:
            raise self._wrong(name, "feature-gate", self._off("has derived attributes", "derived_attributes"))
        device_class = self.classes.get(wish.device_class_name)
        if device_class is None:
            raise self._wrong(name, "class", f"device class {wish.device_class_name} does not exist")
        return Subrequest(
            claim=self.index,
            name=name,
            device_class=device_class,
            selections=(
                *self._compiled(name, device_class.spec.selectors, f"class {wish.device_class_name}"),
                *self._compiled(name, wish.selectors, "the request"),
            ),
            count=wish.count if wish.allocation_mode == "ExactCount" else None,
            admin=bool(admin),
            tolerations=tuple(wish.tolerations),
            capacity=wish.capacity.requests if wish.capacity else {},
            derived={each.name: self._derived(name, each) for each in wish.derived_attributes},
        )

    def _derived(self, name: str, attribute: DerivedAttribute) -> Deriver:
        try:
            return self.provider.derive(attribute.expression)
        except CompileError as error:
            raise self._wrong(name, "selector-error", f"derived attribute {attribute.name}: {error}") from error

    def _compiled(self, name: str, selectors: Sequence[DeviceSelector], owner: str) -> list[PreparedSelector]:
        compiled = []
        for number, selector in enumerate(selectors, 1):
            label = f"selector {number} of {owner}"
            if selector.cel is None:
                raise self._wrong(name, "unsupported", f"{label} has no CEL expression")
            try:
                matcher = self.provider.compile(selector.cel.expression)
            except CompileError as error:
                raise self._wrong(name, "selector-error", f"{label}: {error}") from error
            compiled.append(PreparedSelector(label, selector.cel.expression, matcher))
        return compiled

    def _off(self, what: str, feature: str) -> str:
        return f"{what}, but the {self.features.gate(feature)} feature is disabled"

    def _wrong(self, request: str, code: ReasonCode, text: str) -> Refusal:
        return Refusal(
            "claim",
            f"claim {self.claim.ref}, request {request}: {text}",
            claim=self.claim.ref,
            request=request,
            reasons=[Reason(code, text)],
        )
