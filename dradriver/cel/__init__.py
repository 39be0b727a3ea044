"""Device selectors: parses, checks, compiles and evaluates CEL expressions within limits.

Law: every function here depends only on its arguments. There is no I/O (except for the platform's time zones,
through `zoneinfo`) and no clock. The only state is caches of pure results. The use of Python's stack does not
grow with the input. Nothing here knows slices, pools or claims.

A verdict equals that of Kubernetes, including the peculiarities of its evaluator. The remaining differences are
listed in `tests/conformance/cel_cases/differences.json`.

Modules:

- `derived`: expressions that compute an attribute (KEP-6080).
- `selector`: expressions that select devices.

Rooms:

- `compile`: text to program.
- `evaluate`: program to value, with cost and steps.
- `library`: the functions that expressions can call.
"""

from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.derived import Derivation, compile_derivation
from dradriver.cel.evaluate.errors import CelError, CompileError, EvaluationError
from dradriver.cel.selector import Selector, compile_selector

__all__ = [
    "CelError",
    "CompileError",
    "Derivation",
    "EvaluationError",
    "Selector",
    "SelectorDevice",
    "compile_derivation",
    "compile_selector",
]
