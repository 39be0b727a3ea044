"""Parses, checks, compiles and evaluates the CEL expressions of device selectors, within limits.

Rules for code in this package: the result of a function must depend only on its arguments. Code must not use a
clock or I/O, except `zoneinfo`, which reads the platform's time zones. The only state may be caches of results.
The depth of Python's stack must not grow with the input. Code must not depend on slices, pools or claims.

Each verdict equals Kubernetes' verdict, including the peculiarities of Kubernetes' evaluator. The known
differences are listed in `tests/conformance/cel/fixtures/differences.json`.

Modules:

- `conjuncts`: splits a selector into parts that can be evaluated separately.
- `derived`: compiles and evaluates expressions that compute an attribute (KEP-6080).
- `selector`: compiles and evaluates expressions that select devices.

Rooms:

- `compile`: compiles the text of an expression to a program.
- `evaluate`: runs a program and returns its value, cost and steps.
- `library`: defines the functions that expressions can call.
"""

from dradriver.cel.compile.analysis.comparisons import Comparison
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.conjuncts import Conjunct, split_conjuncts
from dradriver.cel.derived import Derivation, compile_derivation
from dradriver.cel.evaluate.errors import CelError, CompileError, EvaluationError
from dradriver.cel.selector import Selector, compile_selector

__all__ = [
    "CelError",
    "Comparison",
    "CompileError",
    "Conjunct",
    "Derivation",
    "EvaluationError",
    "Selector",
    "SelectorDevice",
    "compile_derivation",
    "compile_selector",
    "split_conjuncts",
]
