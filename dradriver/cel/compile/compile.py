"""Compiles a checked tree to a program of the machine, and computes values that no device can change."""

import math
from dataclasses import replace
from typing import Final

from dradriver.cel.compile.functions import Overload, unit_cost
from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.compile.syntax import (
    ACCUMULATOR,
    CallExpression,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxNode,
)
from dradriver.cel.evaluate import containers, instructions
from dradriver.cel.evaluate.errors import AbortError, ErrorValue
from dradriver.cel.evaluate.instructions import Label
from dradriver.cel.evaluate.machine import Instruction, Program
from dradriver.cel.evaluate.regex import (
    MAX_TOTAL_SIZE,
    PATTERN_ARGUMENT,
    Pattern,
    pattern_size,
    too_large_error,
    with_pattern,
)
from dradriver.cel.evaluate.steps import CALL
from dradriver.cel.evaluate.values import UInt, accepts, to_key

__all__ = ["compile_program", "fold"]

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)
_INDEXES: Final = frozenset({"_[_]", "_[?_]"})
_PRIMITIVE: Final = frozenset({bool, int, UInt, float, str})


def fold(order: list[SyntaxNode]) -> int:
    """Mark constant nodes: literals of constants, conversions of constants, and membership in an empty list.

    It also compiles literal patterns once for all evaluations.

    Returns:
        The total size of the patterns (`Pattern.size`).

    Raises:
        ErrorValue: a constant can't be converted, or is not a valid pattern, so the expression fails on every
            device.
    """
    patterns: dict[str, Pattern] = {}
    for node in order:
        if isinstance(node, ListLiteral) and not any(node.optional) and _are_constant(node.elements):
            node.constant, node.value = True, tuple(element.value for element in node.elements)
        elif isinstance(node, MapLiteral) and not any(node.optional) and _are_constant(node.keys + node.values):
            pairs = zip(node.keys, node.values, strict=True)
            node.constant, node.value = True, {to_key(key.value): value.value for key, value in pairs}
        elif isinstance(node, CallExpression):
            _fold_call(node, patterns)
    return sum(pattern.size for pattern in patterns.values())


def _are_constant(nodes: list[SyntaxNode]) -> bool:
    return all(node.constant for node in nodes)


def _fold_call(node: CallExpression, patterns: dict[str, Pattern]) -> None:
    if node.name in _CONVERSIONS and len(node.args) == 1 and node.args[0].constant:
        value = node.args[0].value
        for overload in node.overloads:
            if accepts(overload.params[0], value):
                node.value = _convert(overload, value, node.offset)
                node.constant = True
                return
    elif node.name == "@append" and node.args[1].constant:
        # In cel-go the call is an addition of a one-element list. This list is constant, so it costs nothing.
        node.overloads = tuple(replace(overload, cost=unit_cost) for overload in node.overloads)
    elif node.name == "_in_" and _is_list_membership(node) and not node.args[1].value:
        node.constant, node.value = True, False
    elif node.name in PATTERN_ARGUMENT and node.args[1].constant and isinstance(node.args[1].value, str):
        pattern = _compile_pattern(node.args[1].value, node.args[1].offset, patterns)
        node.overloads = tuple(with_pattern(overload, pattern) for overload in node.overloads)


def _compile_pattern(text: str, offset: int, patterns: dict[str, Pattern]) -> Pattern:
    known = patterns.get(text)
    if known is not None:
        return known
    size = pattern_size(text)
    try:
        if size + sum(pattern.size for pattern in patterns.values()) > MAX_TOTAL_SIZE:
            raise too_large_error()
        patterns[text] = Pattern(text, size)
    except AbortError as abort:
        raise ErrorValue(abort.reason, abort.hint, offset) from None
    except ErrorValue as fault:
        fault.offset = offset
        raise
    return patterns[text]


def _convert(overload: Overload, value: object, offset: int) -> object:
    try:
        return overload.call(value)
    except ErrorValue as fault:
        fault.offset = offset
        raise


def _is_list_membership(node: CallExpression) -> bool:
    """Return whether a call is certainly `x in [constants]`."""
    return len(node.overloads) == 1 and node.overloads[0].params[1].name == "list" and node.args[1].constant


def compile_program(root: SyntaxNode) -> Program:
    """Return the program of a checked and folded tree."""
    emitter = _Emitter()
    run(emitter.emit(root))
    return Program(emitter.code, emitter.slots, emitter.steps, emitter.literals)


class _Emitter:
    def __init__(self) -> None:
        self.code: list[Instruction] = []
        self.literals: dict[int, int] = {}
        self.slots = 0
        self._called = self._looped = 0
        self._scopes: list[tuple[str, int, Label | None]] = []

    @property
    def steps(self) -> int:
        """Return the steps of one run of the code emitted so far.

        The bodies of loops are not included, because each round counts its own steps.
        """
        return len(self.code) + self._called - self._looped

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _mark(self, label: Label) -> None:
        label.position = len(self.code)

    def emit(self, node: SyntaxNode, *, bare: bool = False) -> Routine[None]:
        """Emit code that pushes the value of `node`.

        If `bare` is set, the node is a part of another path. A node that is a name or a path then adds no cost.
        """
        if node.constant:
            if isinstance(node, Literal):
                self.literals[len(self.code)] = node.offset
            self.code.append(instructions.push_constant(node.value))
        elif isinstance(node, Ident):
            self._ident(node, 0 if bare else 1)
        elif isinstance(node, Select):
            yield self._path(node, bare=bare or node.test)
        elif isinstance(node, CallExpression):
            yield self._path(node, bare=bare) if node.name in _INDEXES else self._call(node)
        elif isinstance(node, ListLiteral):
            yield self._list(node)
        elif isinstance(node, MapLiteral):
            yield self._map(node)
        else:
            assert isinstance(node, Comprehension)  # noqa: S101 - there is no other kind
            yield self._bind(node) if node.accumulator != ACCUMULATOR else self._loop(node)

    def _ident(self, node: Ident, cost: int) -> None:
        if not node.absolute:
            for name, slot, lazy in reversed(self._scopes):
                if name == node.name:
                    self.code.append(instructions.load(slot, lazy, cost))
                    return
        self.code.append(instructions.push_device(cost))

    # --- paths ----------------------------------------------------------------------------

    def _path(self, node: SyntaxNode, *, bare: bool) -> Routine[None]:
        steps: list[Select | CallExpression] = []
        while not node.constant and (
            isinstance(node, Select) or (isinstance(node, CallExpression) and node.name in _INDEXES)
        ):
            steps.append(node)
            node = node.operand if isinstance(node, Select) else node.args[0]
            if isinstance(node, Select) and node.test:
                break
        yield self.emit(node, bare=True)
        for step in reversed(steps):
            if isinstance(step, CallExpression):
                yield self._index(step)
            elif step.test:
                self.code.append(instructions.test(step.field))
            else:
                self.code.append(instructions.select(step.field, step.offset, optional=step.optional))
        is_conditional = isinstance(node, CallExpression) and node.name == "_?_:_"
        if not bare and not is_conditional:
            self.code.append(instructions.charge(1))

    def _index(self, step: CallExpression) -> Routine[None]:
        end = Label()
        self.code.append(instructions.skip_unless_container(end))
        yield self.emit(step.args[1], bare=True)
        self.code.append(instructions.index(step.offset, optional=step.name == "_[?_]"))
        self._mark(end)

    # --- calls ----------------------------------------------------------------------------

    def _call(self, node: CallExpression) -> Routine[None]:
        if node.name in {"_&&_", "_||_"}:
            yield self._logical(node)
        elif node.name == "_?_:_":
            yield self._conditional(node)
        elif node.name in {"or", "orValue"}:
            yield self._alternative(node)
        elif node.name == "@not_strictly_false":
            yield self.emit(node.args[0])
            self.code.append(instructions.not_strictly_false)
        elif node.name == "_in_" and (members := _find_members(node)) is not None:
            yield self.emit(node.args[0])
            self.code.append(instructions.test_membership(members))
        else:
            yield self._plain_call(node)

    def _plain_call(self, node: CallExpression) -> Routine[None]:
        end = Label()
        count = len(node.args)
        # For a call with two arguments, Kubernetes evaluates both. With more arguments, it stops at the first
        # error. A method with several possible overloads is treated like a call with more arguments.
        stops = (
            count > 2
            or (count == 2 and node.is_method and len(node.overloads) > 1)
            or (node.name in PATTERN_ARGUMENT and node.args[1].constant)
        )
        for position, arg in enumerate(node.args):
            yield self.emit(arg)
            if stops and position < count - 1:
                self.code.append(instructions.bail(position, end))
        self.code.append(instructions.call(node.name, node.overloads, count, node.offset))
        self._called += CALL + count
        self._mark(end)

    def _logical(self, node: CallExpression) -> Routine[None]:
        decisive = node.name == "_||_"
        end = Label()
        yield self.emit(node.args[0])
        for arg in node.args[1:]:
            self.code.append(instructions.stop_if(decisive, end))
            yield self.emit(arg)
            self.code.append(instructions.combine(decisive, arg.offset))
        self._mark(end)

    def _conditional(self, node: CallExpression) -> Routine[None]:
        condition, yes, no = node.args
        other, end = Label(), Label()
        yield self.emit(condition)
        self.code.append(instructions.branch(condition.offset, other, end))
        yield self.emit(yes, bare=True)
        self.code.append(instructions.jump(end))
        self._mark(other)
        yield self.emit(no, bare=True)
        self._mark(end)

    def _alternative(self, node: CallExpression) -> Routine[None]:
        end = Label()
        yield self.emit(node.args[0])
        self.code.append(instructions.use_alternative(node.name, node.offset, end))
        yield self.emit(node.args[1])
        self._mark(end)

    # --- literals -------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Routine[None]:
        end = Label()
        for position, element in enumerate(node.elements):
            yield self.emit(element)
            self.code.append(instructions.bail(position, end))
        self.code.append(containers.make_list(tuple(node.optional), node.offset))
        self._mark(end)
        self.code.append(containers.LIST_COST)

    def _map(self, node: MapLiteral) -> Routine[None]:
        end = Label()
        for position, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            yield self.emit(key)
            self.code.append(instructions.bail(2 * position, end))
            yield self.emit(value)
            self.code.append(instructions.bail(2 * position + 1, end))
        self.code.append(containers.make_map(tuple(node.optional), node.offset))
        self._mark(end)
        self.code.append(containers.MAP_COST)

    # --- loops ----------------------------------------------------------------------------

    def _bind(self, node: Comprehension) -> Routine[None]:
        """Emit a binding. Its value is computed when the name is first used."""
        slot, lazy, start = self._slot(), Label(), Label()
        self.code += (instructions.unset(slot), instructions.jump(start))
        self._mark(lazy)
        yield self.emit(node.initial)
        self.code += (instructions.store(slot), instructions.return_from_binding)
        self._mark(start)
        self._scopes.append((node.accumulator, slot, lazy))
        yield self.emit(node.result)
        self._scopes.pop()

    def _loop(self, node: Comprehension) -> Routine[None]:
        accumulator, first = self._slot(), self._slot()
        second = None if node.variable2 is None else self._slot()
        again, over, end = Label(), Label(), Label()
        yield self.emit(node.source)
        self.code.append(containers.enter(node.source.offset, end, pairs=second is not None))
        yield self.emit(node.initial)
        self.code.append(instructions.store(accumulator))
        self._scopes.append((ACCUMULATOR, accumulator, None))
        self._scopes.append((node.variable, first, None))
        if second is not None and node.variable2 is not None:
            self._scopes.append((node.variable2, second, None))
        self._mark(again)
        before = self.steps
        self.code.append(containers.next_item((first, second), over))
        yield self.emit(node.condition)
        self.code.append(containers.leave(over))
        yield self.emit(node.step)
        self.code += (instructions.store(accumulator), instructions.jump(again))
        self._mark(over)
        over.steps = self.steps - before
        self._looped += over.steps
        self.code.append(containers.drop)
        del self._scopes[-(1 if second is None else 2) :]
        yield self.emit(node.result)
        self._scopes.pop()
        self._mark(end)


def _find_members(node: CallExpression) -> frozenset[tuple[type, object]] | None:
    """Return the members of the list of `x in [constants]`, as (type, value).

    They are the constants, and the numbers of other types that equal a constant. The result is None if the call
    has another form, or if a constant is not of a primitive type.
    """
    if not _is_list_membership(node):
        return None
    members: set[tuple[type, object]] = set()
    items = node.args[1].value
    assert isinstance(items, tuple)  # noqa: S101 - a constant list is a tuple
    for item in items:
        if type(item) not in _PRIMITIVE:
            return None
        members.add((type(item), item))
        if type(item) in {int, UInt, float}:
            members.update(_equal_numbers(item))
    return frozenset(members)


def _equal_numbers(item: float) -> list[tuple[type, object]]:
    equal: list[tuple[type, object]] = [(float, float(item))]
    if math.isfinite(item) and item == int(item):
        whole = int(item)
        if -(2**63) <= whole < 2**63:
            equal.append((int, whole))
        if 0 <= whole < 2**64:
            equal.append((UInt, UInt(whole)))
    return equal
