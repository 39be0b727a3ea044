"""Results of each node for unallocated claims. Nodes with the same result form a group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from dradriver.allocator import Reason
from dradriver.allocator.explain.refusal import rank_reason
from dradriver.allocator.explain.verdicts import NodeVerdict, RequestVerdict, explain_allocation
from dradriver.allocator.placement import Placer
from dradriver.cli.attempt import ExtendedResources, Filters, describe_nodes, hide_node_name
from dradriver.cli.classic import ClassicClaim, ClassicClaims, NegotiationReport
from dradriver.cli.explanation.holders import HELD_CODES, ResourceHolder, find_holders
from dradriver.cli.world import Need
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["NodeChecks", "NodeGroup", "RequestAnswer", "node_groups"]

_MAX_HOLDERS: Final = 4

Verdict: TypeAlias = Literal["fits", "refused", "excluded", "undecided", "impossible"]


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """Result of one request on a node.

    Attributes:
        claim, request: names of the claim and the request.
        needed: number of requested devices; None: all matching devices.
        candidates: number of devices that could serve this request alone.
        devices: the devices that the request gets, if the claims fit.
        reasons: the obstacles to this request, each with the devices that it excluded.
        holders: devices in use that take what refused devices need; of several equal nodes, those of the first.
    """

    claim: str
    request: str
    needed: int | None
    candidates: int
    devices: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]
    holders: tuple[ResourceHolder, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same result.

    If the group has several nodes, the texts contain `<node>` instead of the name.

    Attributes:
        nodes: names of the nodes.
        verdict: `fits`; `refused`: a request cannot be served; `excluded`: the pod cannot run on the node for
            reasons other than devices; `undecided`: the search gave up; `impossible`: a claim is invalid.
        message: one sentence.
        requests: results of the requests.
        pools: unusable pools that the nodes reach, each with the reason.
    """

    nodes: tuple[str, ...]
    verdict: Verdict
    message: str
    requests: tuple[RequestAnswer, ...] = ()
    pools: tuple[Reason, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The message and all reasons."""
        reasons = [reason for each in self.requests for reason in each.reasons]
        return [self.message, *(reason.text for reason in (*reasons, *self.pools))]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text output."""
        yield f"{describe_nodes(self.nodes)}: {self.message}"
        for each in self.requests:
            yield from (f"  {line}" for line in _request_lines(each, fits=self.verdict == "fits"))
        yield from (f"  {reason.full_text()}" for reason in self.pools)

    def document(self) -> dict[str, object]:
        """Return the document for programs."""
        return {
            "nodes": list(self.nodes),
            "verdict": self.verdict,
            "message": self.message,
            "requests": [
                {
                    "claim": each.claim,
                    "request": each.request,
                    "needed": each.needed,
                    "candidates": each.candidates,
                    "devices": [str(device) for device in each.devices],
                    "reasons": [_reason(reason) for reason in each.reasons],
                    "holders": [holder.document() for holder in each.holders],
                }
                for each in self.requests
            ],
            "pools": [_reason(reason) for reason in self.pools],
        }


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """Checks that compute the result of a node.

    Attributes:
        placer: the allocator with all devices.
        filters: decides on which nodes the pod can run.
        extended: decides what serves extended resources.
        classic: finds the claims that controllers allocate.
        negotiation: the controllers' answers about the pod; None if there are none.
        pods: the pods of each allocated claim.
    """

    placer: Placer
    filters: Filters
    extended: ExtendedResources
    classic: ClassicClaims
    negotiation: NegotiationReport | None = None
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def classic_refusal(self, claims: Iterable[ClassicClaim], name: str) -> str | None:
        """Return why the classic claims cannot be allocated for a node; None if no object shows a reason.

        Args:
            claims: the pending classic claims.
            name: the name of the node.
        """
        unsuitable = [each.claim.ref for each in claims if not each.suits(name, self.filters.labels(name))]
        if unsuitable:
            return f"suitableNodes of a class of claim {', '.join(unsuitable)} excludes the node"
        return None if self.negotiation is None else self.negotiation.refusal(name)


def _request_lines(answer: RequestAnswer, *, fits: bool) -> Iterator[str]:
    head = f"claim {answer.claim}, request {answer.request}"
    if fits:
        yield f"{head}: {', '.join(map(str, answer.devices)) or 'not chosen'}"
        return
    needed = "all" if answer.needed is None else answer.needed
    yield f"{head}: {needed} needed, {answer.candidates} could serve it alone"
    reasons = sorted(answer.reasons, key=rank_reason)
    last = max((at for at, reason in enumerate(reasons) if reason.code in HELD_CODES), default=-1)
    yield from (f"  {reason.full_text()}" for reason in reasons[: last + 1])
    yield from (f"    {holder}" for holder in answer.holders[:_MAX_HOLDERS])
    if len(answer.holders) > _MAX_HOLDERS:
        yield f"    and {len(answer.holders) - _MAX_HOLDERS} more: `-o json` lists them"
    yield from (f"  {reason.full_text()}" for reason in reasons[last + 1 :])


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "code": reason.code,
        "text": reason.text,
        "devices": [str(device) for device in reason.devices],
        "chosen": [str(device) for device in reason.chosen],
    }


def node_groups(
    need: Need, checks: NodeChecks, names: Iterable[str], done: Callable[[], None]
) -> list[NodeGroup]:
    """Return the results of these nodes for the claims that are not allocated.

    Args:
        need: the pod with its claims, or a claim.
        checks: the checks that compute the results.
        names: names of the nodes.
        done: called after each node.
    """
    open_claims = [claim for claim in need.claims if claim.allocation is None]
    groups: dict[NodeGroup, tuple[NodeGroup, list[str]]] = {}
    names = list(names)
    for name in names:
        group = _on_node(need, open_claims, checks, name)
        if group.verdict == "impossible":
            return [replace(group, nodes=tuple(names))]
        groups.setdefault(_hide_name(group, name), (group, []))[1].append(name)
        done()
    return [
        _with_holders(replace(hidden if len(nodes) > 1 else original, nodes=tuple(nodes)), original, checks)
        for hidden, (original, nodes) in groups.items()
    ]


def _with_holders(group: NodeGroup, first: NodeGroup, checks: NodeChecks) -> NodeGroup:
    """Return the group with the holders of what its first node lacks.

    They are found after the grouping, because equal nodes have different claims.
    """
    if group.verdict != "refused":
        return group
    (name,) = first.nodes
    answers = tuple(
        replace(
            answer,
            holders=find_holders(original.reasons, checks.placer.pools_on(name), checks.pods),
        )
        for answer, original in zip(group.requests, first.requests, strict=True)
    )
    return replace(group, requests=answers)


def _on_node(need: Need, claims: Sequence[ResourceClaim], checks: NodeChecks, name: str) -> NodeGroup:
    special = checks.extended.on_node(need.pod, name)
    if isinstance(special, str):
        return NodeGroup((name,), "excluded", special)
    node_claims = need.claims if special is None else [*need.claims, special]
    if (reason := checks.filters.refusal(need.pod, node_claims, name)) is not None:
        return NodeGroup((name,), "excluded", reason)
    controlled = [classic for each in claims if (classic := checks.classic.find_valid(each)) is not None]
    if (reason := checks.classic_refusal(controlled, name)) is not None:
        return NodeGroup((name,), "excluded", reason)
    refs = {each.claim.ref for each in controlled}
    claims = [each for each in claims if each.ref not in refs]
    if special is not None and special.allocation is None:
        claims = [*claims, special]
    if controlled and not claims:
        return NodeGroup((name,), "fits", f"possible, {_name_deciders(controlled)}")
    if not claims:
        return NodeGroup((name,), "fits", "all claims are allocated")
    outcome = explain_allocation(lambda reporter: checks.placer.allocate_on(name, claims, reporter=reporter))
    wanted = {(each.ref, request): count for each in claims for request, count in _requested_counts(each)}
    answers = tuple(_answer(each, outcome, wanted, claims) for each in outcome.requests)
    refusal = outcome.refusal
    if refusal is None:
        message = f"fits, {_name_deciders(controlled)}" if controlled else "fits"
        return NodeGroup((name,), "fits", message, answers)
    verdicts: dict[str, Verdict] = {"claim": "impossible", "undecided": "undecided", "node": "refused"}
    return NodeGroup((name,), verdicts[refusal.kind], str(refusal), answers, outcome.pools)


def _name_deciders(claims: Iterable[ClassicClaim]) -> str:
    return ", ".join(f"if controller {each.controller} allocates claim {each.claim.ref}" for each in claims)


def _requested_counts(claim: ResourceClaim) -> Iterator[tuple[str, int | None]]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield (
                request.name,
                request.exactly.count if request.exactly.allocation_mode == "ExactCount" else None,
            )
        for sub in request.first_available:
            yield f"{request.name}/{sub.name}", sub.count if sub.allocation_mode == "ExactCount" else None


def _answer(
    each: RequestVerdict,
    outcome: NodeVerdict,
    wanted: dict[tuple[str, str], int | None],
    claims: Sequence[ResourceClaim],
) -> RequestAnswer:
    key = next((claim.metadata.uid or claim.ref for claim in claims if claim.ref == each.claim), "")
    allocation = (outcome.allocations or {}).get(key)
    results = allocation.devices.results if allocation else []
    return RequestAnswer(
        each.claim,
        each.request,
        wanted.get((each.claim, each.request)),
        len(each.candidates),
        tuple(result.id for result in results if result.request == each.request),
        each.reasons,
    )


def _hide_name(group: NodeGroup, name: str) -> NodeGroup:
    hide = partial(hide_node_name, node=name)
    return replace(
        group,
        nodes=(),
        message=hide(group.message),
        requests=tuple(
            replace(
                each,
                devices=tuple(_hide_devices(each.devices, hide)),
                reasons=tuple(_hide_in_reason(reason, hide) for reason in each.reasons),
            )
            for each in group.requests
        ),
        pools=tuple(_hide_in_reason(reason, hide) for reason in group.pools),
    )


def _hide_devices(devices: Iterable[DeviceId], hide: Callable[[str], str]) -> Iterator[DeviceId]:
    return (DeviceId(each.driver, hide(each.pool), hide(each.device)) for each in devices)


def _hide_in_reason(reason: Reason, hide: Callable[[str], str]) -> Reason:
    devices, chosen = tuple(_hide_devices(reason.devices, hide)), tuple(_hide_devices(reason.chosen, hide))
    return replace(reason, text=hide(reason.text), devices=devices, chosen=chosen)
