"""Compiles selectors once and evaluates them on many devices."""

from functools import lru_cache
from typing import NamedTuple

from dradriver.cel.compile.analysis.bounds import MAX_DEVICE_SIZE
from dradriver.cel.compile.analysis.comparisons import Comparison
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.compile.fast import FastProgram
from dradriver.cel.compile.templates import compile_expression, compile_selector_text
from dradriver.cel.evaluate.errors import AbortError, ErrorValue, EvaluationError
from dradriver.cel.evaluate.machine import Program, execute
from dradriver.cel.evaluate.values import type_name

__all__ = ["Evaluation", "Selector", "compile_selector", "evaluate"]


class Evaluation(NamedTuple):
    """The result of one evaluation, with its cost.

    Attributes:
        verdict: whether the device is selected.
        cost: the cost in CEL's units, as Kubernetes counts it.
        steps: the steps, which are this package's own measure of work.
    """

    verdict: bool
    cost: int
    steps: int


def evaluate(expression: str, program: Program, device: SelectorDevice) -> tuple[object, int, int]:
    """Run a program on a device and return its value, its cost and its steps.

    Args:
        expression: the source text, for errors.
        program: the compiled expression.
        device: the device.

    Raises:
        EvaluationError: the expression fails on this device or costs too much.
    """
    if device.fault is not None:
        raise EvaluationError(expression, None, device.fault.reason, device.fault.hint)
    try:
        value, cost, steps = execute(program, device.view)
    except AbortError as abort:
        raise _failure(expression, abort.steps, None, abort.reason, abort.hint) from None
    if isinstance(value, ErrorValue):
        raise _failure(expression, steps, value.offset, value.reason, value.hint)
    return value, cost, steps


def _failure(
    expression: str, steps: int, offset: int | None, reason: str, hint: str | None = None
) -> EvaluationError:
    error = EvaluationError(expression, offset, reason, hint)
    error.steps = steps
    return error


class Selector:
    """A CEL expression about one device (`CELDeviceSelector`). Immutable. Compared by expression.

    Attributes:
        expression: the source text.
        fast_steps: the steps of the fast path, as an estimate that does not depend on the device; 0 if there is
            none.
        pattern_size: the total size of its literal patterns.
        reads: the names, without domains, of the attributes whose values the expression reads; None: possibly
            all. An attribute is not read if the expression only tests whether it exists.
        reads_capacity: whether the expression may read a capacity.
        reads_allow_multiple_allocations: whether the expression may read `allowMultipleAllocations`.
        comparison: the comparison, if the expression only compares one attribute with literals.
        is_bounded: whether the cost and the steps stay below their limits on every device whose size is at
            most `MAX_DEVICE_SIZE`.
    """

    __slots__ = (
        "_fast",
        "_has_exact_offsets",
        "_program",
        "comparison",
        "expression",
        "fast_steps",
        "is_bounded",
        "pattern_size",
        "reads",
        "reads_allow_multiple_allocations",
        "reads_capacity",
    )

    expression: str
    fast_steps: int
    pattern_size: int
    reads: frozenset[str] | None
    reads_capacity: bool
    reads_allow_multiple_allocations: bool
    comparison: Comparison | None
    is_bounded: bool
    _fast: FastProgram | None
    _program: Program
    _has_exact_offsets: bool

    def __init__(self, expression: str) -> None:
        """Compile an expression.

        Raises:
            CompileError: the expression is too long, is not CEL, or is not a bool on any device.
        """
        compiled = compile_selector_text(expression)
        self._set("expression", expression)
        self._set("reads", compiled.reads.attributes)
        self._set("reads_capacity", compiled.reads.capacity)
        self._set("reads_allow_multiple_allocations", compiled.reads.allow_multiple_allocations)
        self._set("comparison", compiled.comparison)
        self._set("is_bounded", compiled.fast is not None)
        self._set("pattern_size", compiled.pattern_size)
        self._set("_fast", compiled.fast and compiled.fast.program())
        self._set("fast_steps", compiled.fast_steps)
        self._set("_program", compiled.program)
        self._set("_has_exact_offsets", compiled.has_exact_offsets)

    def matches(self, device: SelectorDevice) -> bool:
        """Return whether the selector selects the device.

        Args:
            device: the device on which the expression is evaluated.

        Raises:
            EvaluationError: the expression fails on this device, costs too much, or its value is not a bool.
        """
        return self.count_match(device)[0]

    def count_match(self, device: SelectorDevice) -> tuple[bool, int]:
        """Return whether the selector selects the device, and the steps of the evaluation.

        Args:
            device: the device on which the expression is evaluated.

        Raises:
            EvaluationError: as in `matches`.
        """
        steps = 0
        if self._fast is not None and device.size <= MAX_DEVICE_SIZE:
            steps = self.fast_steps
            try:
                verdict = self._fast(device.view)
            except Exception:  # after any error the machine decides
                verdict = None
            if verdict is True or verdict is False:
                return verdict, steps
        value, _, exact_steps = self._run(device)
        return value, steps + exact_steps

    def evaluate(self, device: SelectorDevice) -> Evaluation:
        """Return the verdict with its cost and steps. This method does not use the fast path.

        Args:
            device: the device on which the expression is evaluated.

        Raises:
            EvaluationError: as in `matches`.
        """
        return Evaluation(*self._run(device))

    def _run(self, device: SelectorDevice) -> tuple[bool, int, int]:
        try:
            value, cost, steps = evaluate(self.expression, self._program, device)
        except EvaluationError:
            if self._has_exact_offsets:
                raise
            # The program has the offsets of another text. From now on, use one with the right offsets.
            self._set("_program", compile_expression(self.expression).program)
            self._set("_has_exact_offsets", value=True)
            value, cost, steps = evaluate(self.expression, self._program, device)
        if not isinstance(value, bool):
            reason = f"the result is a {type_name(value)}, not a bool"
            raise _failure(self.expression, steps, None, reason)
        return value, cost, steps

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a selector is immutable: cannot set {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


@lru_cache(maxsize=4096)
def compile_selector(expression: str) -> Selector:
    """Return the selector of an expression. Equal expressions share one selector.

    Args:
        expression: the `cel.expression` of a device selector.

    Raises:
        CompileError: see `Selector`.
    """
    return Selector(expression)
