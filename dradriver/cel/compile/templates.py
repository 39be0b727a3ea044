"""Compiles expressions. Selectors that differ only in literals beside `==` or `!=` share their compiled form.

A cluster has many selectors such as `device.attributes["a"].serial == "..."`, each with another serial number.
The first one is compiled in full and kept as a template. For the others, only the literals are replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from dradriver.cel.compile.analysis.bounds import MAX_DEVICE_SIZE, estimate_steps
from dradriver.cel.compile.analysis.comparisons import Comparison, Plain, find_comparison
from dradriver.cel.compile.analysis.reads import Reads, find_reads
from dradriver.cel.compile.analysis.skeletons import Skeleton, find_skeleton, has_free_literals
from dradriver.cel.compile.checker import check
from dradriver.cel.compile.compile import compile_program, fold
from dradriver.cel.compile.fast import FastPath, fast_path
from dradriver.cel.compile.lexer import Token, tokenize
from dradriver.cel.compile.parser import literal_value, parse
from dradriver.cel.compile.syntax import SyntaxNode
from dradriver.cel.evaluate.cost import MAX_LENGTH
from dradriver.cel.evaluate.errors import CompileError, ErrorValue
from dradriver.cel.evaluate.instructions import push_constant
from dradriver.cel.evaluate.machine import Program

__all__ = ["Compiled", "compile_expression", "compile_selector_text"]

_MAX_TOKENS: Final = 100_000
"""Maximum number of tokens of all templates."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled expression.

    Attributes:
        program: the program of the machine.
        fast: the fast path; None if there is none.
        fast_steps: the steps of the fast path, as an estimate that does not depend on the device.
        pattern_size: the total size of the literal patterns.
        reads: what the expression reads.
        comparison: the comparison that the expression makes; None if it has another form.
        has_exact_offsets: whether errors have the right offsets. They do not if a template was filled.
    """

    program: Program
    fast: FastPath | None
    fast_steps: int
    pattern_size: int
    reads: Reads
    comparison: Comparison | None
    has_exact_offsets: bool = True

    def with_literals(self, values: Mapping[int, Plain]) -> "Compiled":
        """Return the expression with other literals.

        Args:
            values: the new value of each replaced literal, by the offset of the old literal.
        """
        program = self.program
        code = program.code.copy()
        for position, offset in program.literals.items():
            if offset in values:
                code[position] = push_constant(values[offset])
        comparison = self.comparison
        if comparison is not None and comparison.is_equality:
            # A comparison contains no other literal that may vary.
            (literal,) = values.values()
            comparison = comparison.with_literal(literal)
        return Compiled(
            Program(code, program.slots, program.steps, program.literals),
            self.fast and self.fast.with_literals(values),
            self.fast_steps,
            self.pattern_size,
            self.reads,
            comparison,
            has_exact_offsets=False,
        )


def compile_expression(expression: str, *, derives: bool = False) -> Compiled:
    """Compile an expression in full.

    Args:
        expression: the source text.
        derives: True for a derived attribute, False for a selector.

    Raises:
        CompileError: the expression is too long, is not CEL, or has the wrong type on every device.
    """
    try:
        return _compile(_tokens(expression), derives=derives)[0]
    except ErrorValue as fault:
        raise CompileError(expression, fault.offset, fault.reason, fault.hint) from None


def compile_selector_text(expression: str) -> Compiled:
    """Compile a selector, from a template if there is one.

    The result gives the same verdicts, costs and steps as `compile_expression`.

    Raises:
        CompileError: as in `compile_expression`.
    """
    try:
        tokens = _tokens(expression)
        skeleton = find_skeleton(tokens)
        values = _values(skeleton)
        if values is None:
            return _compile(tokens, derives=False)[0]
        template = _TEMPLATES.get(skeleton)
        if template is not None:
            return template.fill(values)
        compiled, order = _compile(tokens, derives=False)
    except ErrorValue as fault:
        raise CompileError(expression, fault.offset, fault.reason, fault.hint) from None
    offsets = [literal.offset for literal in skeleton.literals]
    if has_free_literals(order, frozenset(offsets)):
        _TEMPLATES.add(skeleton, _Template(compiled, offsets))
    return compiled


def _tokens(expression: str) -> list[Token]:
    if len(expression.encode(errors="replace")) > MAX_LENGTH:
        raise ErrorValue(f"the expression is longer than {MAX_LENGTH} bytes")
    return tokenize(expression)


def _values(skeleton: Skeleton) -> list[Plain] | None:
    """Return the values of the literals that may vary; None if the expression can't share its form.

    A long text counts in the bounds of the fast path, so it may not vary. For a literal that denotes no value
    the result is None too: only a full compilation finds the first error of the text.
    """
    try:
        values = [cast(Plain, literal_value(literal)) for literal in skeleton.literals]
    except ErrorValue:
        return None
    is_long = any(isinstance(value, str) and len(value) > MAX_DEVICE_SIZE for value in values)
    return None if is_long or not values else values


def _compile(tokens: list[Token], *, derives: bool) -> tuple[Compiled, list[SyntaxNode]]:
    root = parse(tokens)
    order = check(root, derives=derives)
    size = fold(order)
    fast = None if derives else fast_path(root, order)
    steps = estimate_steps(order) if fast else 0
    return Compiled(compile_program(root), fast, steps, size, find_reads(root), find_comparison(root)), order


class _Template:
    """A compiled selector, and the offsets of its literals that may vary."""

    def __init__(self, compiled: Compiled, offsets: list[int]) -> None:
        self._compiled = compiled
        self._offsets = offsets

    def fill(self, values: list[Plain]) -> Compiled:
        """Return the compiled selector with these literals, in the order of the text."""
        return self._compiled.with_literals(dict(zip(self._offsets, values, strict=True)))


class _Templates:
    """The known templates. When they become too many, all are forgotten."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ...], _Template] = {}
        self._tokens = 0

    def get(self, skeleton: Skeleton) -> _Template | None:
        return self._templates.get(skeleton.key)

    def add(self, skeleton: Skeleton, template: _Template) -> None:
        size = len(skeleton.key)
        if self._tokens + size > _MAX_TOKENS:
            self._templates.clear()
            self._tokens = 0
        self._templates[skeleton.key] = template
        self._tokens += size


_TEMPLATES: Final = _Templates()
