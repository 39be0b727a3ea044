"""Structural schemas: the rules that the definition of a custom kind has for its objects.

A schema is the JSON of `spec.versions[].schema.openAPIV3Schema`.

| module | contents |
|---|---|
| `schemas` | checks that a schema is structural |
| `pruning` | removes unknown fields and nulls, and sets defaults |
| `validating` | checks types, required fields, enumerations, limits, patterns, and duplicate items |
| `merging` | the list types and map types for server-side apply |

Differences from kube-apiserver: of the CEL rules (`x-kubernetes-validations`), only `self == oldSelf` is
checked, because dradriver's CEL evaluates expressions about devices. The keywords `allOf`, `anyOf`, `oneOf`,
`not` and `format` have no effect. Defaults are set when an object is written, not when it is read.
"""

from dradriver.cluster.apiserver.structural.merging import (
    Structure,
    find_apply_problems,
    make_structure,
)
from dradriver.cluster.apiserver.structural.pruning import find_unknown, prune
from dradriver.cluster.apiserver.structural.schemas import check_schema
from dradriver.cluster.apiserver.structural.validating import find_violations

__all__ = [
    "Structure",
    "check_schema",
    "find_apply_problems",
    "find_unknown",
    "find_violations",
    "make_structure",
    "prune",
]
