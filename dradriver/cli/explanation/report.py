"""The complete explanation, which can be output as lines or as a document."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.cli.classic import NegotiationReport
from dradriver.cli.explanation.claims import ClaimStage
from dradriver.cli.explanation.nodes import NodeGroup

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod or a claim is in its state.

    Attributes:
        kind, ref: the explained object: `Pod` or `ResourceClaim`, and its `namespace/name`.
        message: one sentence.
        claims: states of the claims, in the pod's order.
        remarks: other facts, one sentence each.
        nodes: results of the nodes; empty if all claims are allocated.
        negotiation: the negotiation with controllers; None if no classic claim is pending (KEP-3063).
    """

    kind: str
    ref: str
    message: str
    claims: tuple[ClaimStage, ...] = ()
    remarks: tuple[str, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    negotiation: NegotiationReport | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text output."""
        yield self.message
        for claim in self.claims:
            yield from (f"  {line}" for line in claim.lines() if line != self.message)
        if self.negotiation is not None:
            yield from (f"  {line}" for line in self.negotiation.lines())
        yield from (f"  {remark}" for remark in self.remarks)
        for group in self.nodes:
            yield from group.lines()

    def document(self) -> dict[str, object]:
        """Return a document of `dradriver/v1` for programs."""
        namespace, _, name = self.ref.partition("/")
        return {
            "apiVersion": "dradriver/v1",
            "kind": "Explanation",
            "subject": {"kind": self.kind, "namespace": namespace, "name": name},
            "message": self.message,
            "claims": [claim.document() for claim in self.claims],
            "negotiation": self.negotiation.document() if self.negotiation is not None else None,
            "remarks": list(self.remarks),
            "nodes": [group.document() for group in self.nodes],
        }
