"""`dradriver explain`: why a pod or a claim is not in the state that its user wants.

The answer has three parts: the pod's state in the API server; the state of each of its claims (missing, not
allocated, waiting for binding conditions, failed); and, while something is not allocated, the result for each
node, from the allocator itself.

Law of this package: it reads and reports. The scheduler's own code, in `control` and `allocator`, decides.

- `command`: the commands.
- `answers`: builds the explanation of a pod or a claim.
- `claims`: states of claims.
- `nodes`: results of nodes.
- `extended`: extended resources.
- `prepares`: prepares that failed on a node.
- `report`: the explanation as lines and as a document.
"""

from dradriver.cli.explanation.command import explain

__all__ = ["explain"]
