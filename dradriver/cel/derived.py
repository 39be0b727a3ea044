"""Derived attributes: expressions that compute a value of a device for constraints (KEP-6080)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.compile.templates import compile_expression
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.cel.evaluate.values import UInt, type_name
from dradriver.cel.library.semver import Semver
from dradriver.cel.selector import evaluate
from dradriver.model.resource.device import AttributeValue, Scalar, Version

__all__ = ["Derivation", "compile_derivation"]


_MAX_VALUES: Final = 10_000


class Derivation:
    """A CEL expression that computes an attribute (`DeviceDerivedAttribute`). Immutable.

    Attributes:
        expression: the source text.
        pattern_size: the total size of its literal patterns.
        reads: the names, without domains, of the attributes whose values the expression reads; None: possibly
            all.
        reads_capacity: whether the expression may read a capacity.
    """

    __slots__ = ("_program", "expression", "pattern_size", "reads", "reads_capacity")

    def __init__(self, expression: str) -> None:
        """Compile an expression.

        Raises:
            CompileError: the expression is too long, is not CEL, or its type is not a type of attributes.
        """
        compiled = compile_expression(expression, derives=True)
        self.expression = expression
        self.pattern_size = compiled.pattern_size
        self.reads = compiled.reads.attributes
        self.reads_capacity = compiled.reads.capacity
        self._program = compiled.program

    def compute(self, device: SelectorDevice) -> tuple[AttributeValue, int]:
        """Return the value of the derived attribute for a device, and the steps of the evaluation.

        An empty list is a valid value, but in constraints it equals no value, not even another empty list.

        Args:
            device: the device on which the expression is evaluated.

        Source: KEP-6080.

        Raises:
            EvaluationError: the expression fails on this device, costs too much, or its value is not an
                attribute.
        """
        value, _, steps = evaluate(self.expression, self._program, device)
        return self._list(value) if isinstance(value, tuple | list) else self._scalar(value), steps

    def _list(self, items: Sequence[object]) -> AttributeValue:
        if len(items) > _MAX_VALUES:
            raise EvaluationError(self.expression, None, f"the result has more than {_MAX_VALUES} values")
        values = tuple(map(self._scalar, items))
        if len({type(item) for item in values}) > 1:
            raise EvaluationError(self.expression, None, "the result is a list of different types")
        return values

    def _scalar(self, value: object) -> Scalar:
        if isinstance(value, Semver):
            return Version(_version_text(value))
        if isinstance(value, UInt) or not isinstance(value, bool | int | str):
            raise EvaluationError(
                self.expression, None, f"the result is a {type_name(value)}, which is not an attribute"
            )
        return value


def _version_text(version: Semver) -> str:
    numbers, released, identifiers = version.order
    text = ".".join(map(str, numbers))
    return text if released else f"{text}-{'.'.join(word or str(number) for _, number, word in identifiers)}"


@lru_cache(maxsize=1024)
def compile_derivation(expression: str) -> Derivation:
    """Return the derivation of an expression. Equal expressions share one derivation.

    Args:
        expression: the expression of a `DeviceDerivedAttribute`.

    Raises:
        CompileError: see `Derivation`.
    """
    return Derivation(expression)
