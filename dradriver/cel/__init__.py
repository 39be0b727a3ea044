"""Device selectors: what an expression sees, how it is compiled, what it costs, what its errors say.

Law: everything here is a function of its arguments. No I/O (but for the platform's time zones, through
`zoneinfo`), no clock, no state beyond caches of pure results, no use of Python's stack that grows with the
input, no knowledge of slices, pools or claims. A verdict is Kubernetes' own: where its evaluator is odd, so
is this one; what still differs is listed in `tests/conformance/cel_cases/differences.json`.
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
