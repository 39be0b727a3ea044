"""`dradriver explain`: why a pod or a claim is not as its user wants it.

Three answers in one: what the API server says of the pod; how far each of its claims is (`claims`: missing,
not allocated, waiting for binding conditions, failed); and, while something is still to be allocated, what each
node has for it (`nodes`, from the allocator itself). `report` has them as lines and as a document.

Law of this package: it asks and tells. What is told is decided by the scheduler's own code, in `control` and
`allocator`.
"""

from dradriver.cli.explanation.command import explain

__all__ = ["explain"]
