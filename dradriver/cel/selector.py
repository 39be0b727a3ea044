"""Selectors, compiled once and evaluated on many devices."""

from functools import lru_cache
from typing import NamedTuple

from dradriver.cel.compile.checker import check
from dradriver.cel.compile.compile import compile_program, fold
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.compile.fast import LARGEST_DEVICE, FastProgram, fast_program
from dradriver.cel.compile.parser import parse
from dradriver.cel.compile.reads import attributes_read
from dradriver.cel.evaluate.cost import MAX_LENGTH
from dradriver.cel.evaluate.errors import AbortError, CompileError, ErrorValue, EvaluationError
from dradriver.cel.evaluate.machine import Program, execute
from dradriver.cel.evaluate.values import type_name

__all__ = ["Evaluation", "Selector", "compile_selector"]


class Evaluation(NamedTuple):
    """The result and the effort of one evaluation.

    Attributes:
        verdict: whether the device is selected.
        cost: in CEL's units, as Kubernetes counts it.
        steps: in this package's own units of work.
    """

    verdict: bool
    cost: int
    steps: int


class Selector:
    """A CEL expression about one device (`CELDeviceSelector`). Immutable; equal if the expressions are equal.

    Attributes:
        expression: the source text.
        reads: the names, without domains, of the attributes that it reads; None: possibly all.
    """

    __slots__ = ("_fast", "_program", "expression", "reads")

    expression: str
    reads: frozenset[str] | None
    _fast: FastProgram | None
    _program: Program

    def __init__(self, expression: str) -> None:
        """Compile an expression.

        Raises:
            CompileError: it is too long, not CEL, or can't give a bool for any device.
        """
        if len(expression.encode(errors="replace")) > MAX_LENGTH:
            raise CompileError(expression, None, f"it is longer than {MAX_LENGTH} bytes")
        try:
            root = parse(expression)
            order = check(root)
            reads = attributes_read(order)
            fold(order)
            program = compile_program(root)
        except ErrorValue as fault:
            raise CompileError(expression, fault.offset, fault.reason, fault.hint) from None
        object.__setattr__(self, "expression", expression)
        object.__setattr__(self, "reads", reads)
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_fast", fast_program(root, order))

    def matches(self, device: SelectorDevice) -> bool:
        """Return whether the selector selects the device.

        Raises:
            EvaluationError: the expression fails on this device, costs too much, or gives no bool.
        """
        if self._fast is not None and device.size <= LARGEST_DEVICE:
            try:
                verdict = self._fast(device.view)
            except Exception:  # after any error the machine decides
                verdict = None
            if verdict is True or verdict is False:
                return verdict
        return self._run(device)[0]

    def evaluate(self, device: SelectorDevice) -> Evaluation:
        """Return the verdict with its cost and steps. The machine always evaluates it.

        Raises:
            EvaluationError: as for `matches`.
        """
        return Evaluation(*self._run(device))

    def _run(self, device: SelectorDevice) -> tuple[bool, int, int]:
        if device.fault is not None:
            raise EvaluationError(self.expression, None, device.fault.reason, device.fault.hint)
        try:
            value, cost, steps = execute(self._program, device.view)
        except AbortError as abort:
            raise EvaluationError(self.expression, None, abort.reason, abort.hint) from None
        if isinstance(value, ErrorValue):
            raise EvaluationError(self.expression, value.offset, value.reason, value.hint)
        if not isinstance(value, bool):
            raise EvaluationError(self.expression, None, f"it gives a {type_name(value)}, not a bool")
        return value, cost, steps

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a selector never changes: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


@lru_cache(maxsize=4096)
def compile_selector(expression: str) -> Selector:
    """Return the selector of an expression. Equal expressions share one selector.

    Raises:
        CompileError: see `Selector`.
    """
    return Selector(expression)
