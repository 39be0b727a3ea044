"""Derived attributes: expressions that compute a value of a device for constraints (KEP-6080)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from dradriver.cel.compile.checker import check
from dradriver.cel.compile.compile import compile_program, fold
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.compile.parser import parse
from dradriver.cel.compile.reads import attributes_read
from dradriver.cel.evaluate.cost import MAX_LENGTH
from dradriver.cel.evaluate.errors import AbortError, CompileError, ErrorValue, EvaluationError
from dradriver.cel.evaluate.machine import execute
from dradriver.cel.evaluate.values import UInt, type_name
from dradriver.cel.library.semver import Semver
from dradriver.model.resource.device import AttributeValue, Scalar, Version

__all__ = ["Derivation", "compile_derivation"]


_MOST_VALUES: Final = 10_000


class Derivation:
    """A CEL expression that computes an attribute (`DeviceDerivedAttribute`). Immutable.

    Attributes:
        expression: the source text.
        reads: the names, without domains, of the attributes that it reads; None: possibly all.
    """

    __slots__ = ("_program", "expression", "reads")

    def __init__(self, expression: str) -> None:
        """Compile an expression.

        Raises:
            CompileError: it is too long, not CEL, or gives no attribute for any device.
        """
        if len(expression.encode(errors="replace")) > MAX_LENGTH:
            raise CompileError(expression, None, f"it is longer than {MAX_LENGTH} bytes")
        try:
            root = parse(expression)
            order = check(root, derives=True)
            reads = attributes_read(order)
            fold(order)
            program = compile_program(root)
        except ErrorValue as fault:
            raise CompileError(expression, fault.offset, fault.reason, fault.hint) from None
        self.expression = expression
        self.reads = reads
        self._program = program

    def of(self, device: SelectorDevice) -> AttributeValue:
        """Return the attribute of a device. An empty list is an attribute that equals nothing.

        Raises:
            EvaluationError: the expression fails on this device, costs too much, or gives no attribute.
        """
        if device.fault is not None:
            raise EvaluationError(self.expression, None, device.fault.reason, device.fault.hint)
        try:
            value, _, _ = execute(self._program, device.view)
        except AbortError as abort:
            raise EvaluationError(self.expression, None, abort.reason, abort.hint) from None
        if isinstance(value, ErrorValue):
            raise EvaluationError(self.expression, value.offset, value.reason, value.hint)
        return self._list(value) if isinstance(value, tuple | list) else self._scalar(value)

    def _list(self, items: Sequence[object]) -> AttributeValue:
        if len(items) > _MOST_VALUES:
            raise EvaluationError(self.expression, None, f"it gives a list of more than {_MOST_VALUES} values")
        found = tuple(map(self._scalar, items))
        if len({type(item) for item in found}) > 1:
            raise EvaluationError(self.expression, None, "it gives a list of different types")
        return found

    def _scalar(self, value: object) -> Scalar:
        if isinstance(value, Semver):
            return Version(_text(value))
        if isinstance(value, UInt) or not isinstance(value, bool | int | str):
            raise EvaluationError(
                self.expression, None, f"it gives a {type_name(value)}, which is no attribute"
            )
        return value


def _text(version: Semver) -> str:
    numbers, released, identifiers = version.order
    text = ".".join(map(str, numbers))
    return text if released else f"{text}-{'.'.join(word or str(number) for _, number, word in identifiers)}"


@lru_cache(maxsize=1024)
def compile_derivation(expression: str) -> Derivation:
    """Return the derivation of an expression. Equal expressions share one derivation.

    Raises:
        CompileError: see `Derivation`.
    """
    return Derivation(expression)
