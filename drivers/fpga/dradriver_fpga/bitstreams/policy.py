"""Decides which namespace may program which device from which source. Pure.

The rules of `bitstreams.policy` only allow. Without rules, every namespace may program every device. If there
is any rule, a claim needs a rule whose fields all match; otherwise it is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.card import normalize_id
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.settings import PolicyRule
from dradriver_fpga.urls import parse_url

__all__ = ["PolicyRequest", "require_allowed"]


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """What a claim asks for.

    Attributes:
        namespace: namespace of the claim.
        device: name of the device, for messages.
        type: kind of the device: `slot`, `region`, `card` or `management`.
        interface_id: interface of the device, 32 hex digits; "" if unknown.
        card: PCI vendor and device of the card: `8086:09c4`; `:` for a platform device.
        bitstream: the requested bitstream; None for a shell of the operator's settings and for a management
            device.
    """

    namespace: str
    device: str
    type: str
    interface_id: str
    card: str
    bitstream: RequestedBitstream | None = None


def require_allowed(request: PolicyRequest, rules: Sequence[PolicyRule]) -> None:
    """Check that a rule allows the request. Without rules, every request is allowed.

    Args:
        request: what a claim asks for.
        rules: the operator's rules.

    Raises:
        BitstreamError: no rule allows the request. The message names the rule that comes nearest, and its first
            field that does not match.
    """
    if not rules:
        return
    matched = [_count_matches(rule, request) for rule in rules]
    best = max(matched)
    if best == len(_FIELDS):
        return
    number, (field, describe, _) = matched.index(best), _FIELDS[best]
    nearest = f"bitstreams.policy[{number}].{field} does not contain {describe(request)}"
    reason = nearest if best else f"no rule of bitstreams.policy has {describe(request)}"
    raise BitstreamError(
        f"device {request.device} is not allowed for claims of namespace {request.namespace} by the settings "
        f"of this node: {reason}",
        "NotAllowed",
    )


def _count_matches(rule: PolicyRule, request: PolicyRequest) -> int:
    """Return the number of fields that match before the first one that does not."""
    for number, (_, _, matches) in enumerate(_FIELDS):
        if not matches(rule, request):
            return number
    return len(_FIELDS)


def _has_namespace(rule: PolicyRule, request: PolicyRequest) -> bool:
    return any(fnmatchcase(request.namespace, pattern) for pattern in rule.namespaces)


def _has_type(rule: PolicyRule, request: PolicyRequest) -> bool:
    return request.type in rule.types


def _has_card(rule: PolicyRule, request: PolicyRequest) -> bool:
    return not rule.cards or request.card in rule.cards


def _has_interface(rule: PolicyRule, request: PolicyRequest) -> bool:
    return not rule.interface_ids or request.interface_id in map(normalize_id, rule.interface_ids)


def _has_source(rule: PolicyRule, request: PolicyRequest) -> bool:
    bitstream = request.bitstream
    if bitstream is None or not rule.sources:
        return True
    if bitstream.url is None:
        return ("file" if bitstream.config_map is None else "configMap") in rule.sources
    prefixes = [parse_url(source) for source in rule.sources if "://" in source]
    return any(parse_url(bitstream.url).is_below(prefix) for prefix in prefixes)


def _describe_source(request: PolicyRequest) -> str:
    bitstream = request.bitstream
    if bitstream is None:
        return "the source"
    return f"the source of {bitstream.location}"


_Describe = Callable[[PolicyRequest], str]
_Matches = Callable[[PolicyRule, PolicyRequest], bool]
_FIELDS: Final[Sequence[tuple[str, _Describe, _Matches]]] = (
    ("namespaces", lambda request: f"namespace {request.namespace}", _has_namespace),
    ("types", lambda request: f"type {request.type}", _has_type),
    ("cards", lambda request: f"card {request.card}", _has_card),
    ("interfaceIDs", lambda request: f"interface {request.interface_id or '(unknown)'}", _has_interface),
    ("sources", _describe_source, _has_source),
)
"""The fields of a rule, in the order in which they are compared."""
