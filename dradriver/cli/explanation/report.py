"""The complete explanation, as lines and as a document."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.cli.explanation.claims import ClaimStage
from dradriver.cli.explanation.nodes import NodeGroup

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod or a claim is in its state.

    Attributes:
        kind, ref: subject: `Pod` or `ResourceClaim`, and `namespace/name`.
        message: one sentence.
        claims: the claims, in the pod's order.
        remarks: other useful facts, one sentence each.
        nodes: results of the nodes; empty if nothing is left to allocate.
    """

    kind: str
    ref: str
    message: str
    claims: tuple[ClaimStage, ...] = ()
    remarks: tuple[str, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()

    def lines(self) -> Iterator[str]:
        """Return the answer for people."""
        yield self.message
        for claim in self.claims:
            yield from (f"  {line}" for line in claim.lines() if line != self.message)
        yield from (f"  {remark}" for remark in self.remarks)
        for group in self.nodes:
            yield from group.lines()

    def document(self) -> dict[str, object]:
        """Return the answer for programs: a document of `dradriver/v1`."""
        namespace, _, name = self.ref.partition("/")
        return {
            "apiVersion": "dradriver/v1",
            "kind": "Explanation",
            "subject": {"kind": self.kind, "namespace": namespace, "name": name},
            "message": self.message,
            "claims": [claim.document() for claim in self.claims],
            "remarks": list(self.remarks),
            "nodes": [group.document() for group in self.nodes],
        }
