"""Results of each node for unallocated claims. Nodes with the same result form a group."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from dradriver.allocator import Reason
from dradriver.allocator.explain.refusal import telling
from dradriver.allocator.explain.verdicts import NodeVerdict, RequestVerdict, verdict
from dradriver.allocator.placement import Placer
from dradriver.cli.attempt import ExtendedResources, Filters, anonymous, named_nodes
from dradriver.cli.world import Need
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["Asked", "NodeGroup", "RequestAnswer", "node_groups"]

Verdict: TypeAlias = Literal["fits", "refused", "excluded", "undecided", "impossible"]


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """Result of one request on a node.

    Attributes:
        claim, request: names of the claim and the request.
        needed: number of requested devices; None: all that match.
        candidates: number of devices that could serve this request alone.
        devices: the devices that it gets, if the claims fit.
        reasons: for each group of the other devices, why it was rejected.
    """

    claim: str
    request: str
    needed: int | None
    candidates: int
    devices: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same result. For several nodes, the texts have `<node>` instead of the name.

    Attributes:
        nodes: their names.
        verdict: `fits`; `refused`: a request cannot be served; `excluded`: the pod cannot run there, whatever
            the devices; `undecided`: the search gave up; `impossible`: a claim itself is wrong.
        message: one sentence.
        requests: results of the requests.
        pools: unusable pools that the nodes reach, with the reason.
    """

    nodes: tuple[str, ...]
    verdict: Verdict
    message: str
    requests: tuple[RequestAnswer, ...] = ()
    pools: tuple[Reason, ...] = ()

    def lines(self) -> Iterator[str]:
        """Return the answer for people."""
        yield f"{named_nodes(self.nodes)}: {self.message}"
        for each in self.requests:
            yield from (f"  {line}" for line in _request_lines(each, fits=self.verdict == "fits"))
        yield from (f"  {reason.in_full()}" for reason in self.pools)

    def document(self) -> dict[str, object]:
        """Return the answer for programs."""
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
                }
                for each in self.requests
            ],
            "pools": [_reason(reason) for reason in self.pools],
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """The objects that compute the results of nodes.

    Attributes:
        placer: the allocator with all devices.
        filters: decides on which nodes the pod can run.
        extended: decides what serves extended resources.
    """

    placer: Placer
    filters: Filters
    extended: ExtendedResources


def _request_lines(answer: RequestAnswer, *, fits: bool) -> Iterator[str]:
    head = f"claim {answer.claim}, request {answer.request}"
    if fits:
        yield f"{head}: {', '.join(map(str, answer.devices)) or 'not chosen'}"
        return
    needed = "all" if answer.needed is None else answer.needed
    yield f"{head}: {needed} needed, {answer.candidates} could serve it alone"
    yield from (f"  {reason.in_full()}" for reason in sorted(answer.reasons, key=telling))


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "code": reason.code,
        "text": reason.text,
        "devices": [str(device) for device in reason.devices],
        "chosen": [str(device) for device in reason.chosen],
    }


def node_groups(need: Need, asked: Asked, names: Iterable[str], done: Callable[[], None]) -> list[NodeGroup]:
    """Return the results of these nodes for the claims that are not allocated.

    Args:
        need: the pod with its claims, or a claim.
        asked: the objects that compute the results.
        names: names of the nodes.
        done: called after each node.
    """
    open_claims = [claim for claim in need.claims if claim.allocation is None]
    groups: dict[NodeGroup, tuple[NodeGroup, list[str]]] = {}
    names = list(names)
    for name in names:
        found = _on_node(need, open_claims, asked, name)
        if found.verdict == "impossible":
            return [replace(found, nodes=tuple(names))]
        groups.setdefault(_anonymous(found, name), (found, []))[1].append(name)
        done()
    return [
        replace(alike if len(nodes) > 1 else alone, nodes=tuple(nodes))
        for alike, (alone, nodes) in groups.items()
    ]


def _on_node(need: Need, claims: Sequence[ResourceClaim], asked: Asked, name: str) -> NodeGroup:
    special = asked.extended.on_node(need.pod, name)
    if isinstance(special, str):
        return NodeGroup((name,), "excluded", special)
    every = need.claims if special is None else [*need.claims, special]
    if (words := asked.filters.refusal(need.pod, every, name)) is not None:
        return NodeGroup((name,), "excluded", words)
    if special is not None and special.allocation is None:
        claims = [*claims, special]
    if not claims:
        return NodeGroup((name,), "fits", "nothing is left to allocate")
    found = verdict(lambda reporter: asked.placer.allocate_on(name, claims, reporter=reporter))
    wanted = {(each.ref, request): count for each in claims for request, count in _counts(each)}
    answers = tuple(_answer(each, found, wanted, claims) for each in found.requests)
    refusal = found.refusal
    if refusal is None:
        return NodeGroup((name,), "fits", "fits", answers)
    verdicts: dict[str, Verdict] = {"claim": "impossible", "undecided": "undecided", "node": "refused"}
    return NodeGroup((name,), verdicts[refusal.kind], str(refusal), answers, found.pools)


def _counts(claim: ResourceClaim) -> Iterator[tuple[str, int | None]]:
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
    found: NodeVerdict,
    wanted: dict[tuple[str, str], int | None],
    claims: Sequence[ResourceClaim],
) -> RequestAnswer:
    key = next((claim.metadata.uid or claim.ref for claim in claims if claim.ref == each.claim), "")
    allocation = (found.allocations or {}).get(key)
    results = allocation.devices.results if allocation else []
    return RequestAnswer(
        each.claim,
        each.request,
        wanted.get((each.claim, each.request)),
        len(each.candidates),
        tuple(result.id for result in results if result.request == each.request),
        each.reasons,
    )


def _anonymous(group: NodeGroup, name: str) -> NodeGroup:
    hide = partial(anonymous, node=name)
    return replace(
        group,
        nodes=(),
        message=hide(group.message),
        requests=tuple(
            replace(
                each,
                devices=tuple(_hidden(each.devices, hide)),
                reasons=tuple(_hidden_reason(reason, hide) for reason in each.reasons),
            )
            for each in group.requests
        ),
        pools=tuple(_hidden_reason(reason, hide) for reason in group.pools),
    )


def _hidden(devices: Iterable[DeviceId], hide: Callable[[str], str]) -> Iterator[DeviceId]:
    return (DeviceId(each.driver, hide(each.pool), hide(each.device)) for each in devices)


def _hidden_reason(reason: Reason, hide: Callable[[str], str]) -> Reason:
    devices, chosen = tuple(_hidden(reason.devices, hide)), tuple(_hidden(reason.chosen, hide))
    return replace(reason, text=hide(reason.text), devices=devices, chosen=chosen)
