"""`dradriver explain`: why a pod or a claim waits.

The explanation has four parts: the state of the pod in the API server; the state of each of its claims
(missing, not allocated, waiting for binding conditions, failed); the negotiation with controllers about classic
claims (KEP-3063); and, if a claim is not allocated, the allocator's result for each node.

Law of this package: it reads and reports, and must not decide anything. The scheduler's own code, in `control`
and `allocator`, decides.

- `command`: the commands.
- `answers`: builds the explanation of a pod or a claim.
- `claims`: states of claims.
- `nodes`: results of nodes.
- `holders`: claims that hold what refused devices need.
- `extended`: extended resources.
- `prepares`: prepares that failed on a node.
- `report`: the explanation as lines and as a document.
"""

from dradriver.cli.explanation.answers import Question, explain_claim, explain_pod
from dradriver.cli.explanation.command import explain

__all__ = ["Question", "explain", "explain_claim", "explain_pod"]
