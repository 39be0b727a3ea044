"""Represents functions for the checker and the evaluator, and defines the notation of their declarations."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.cel.compile.types import NAMED, CelType, list_of, map_of, optional_of, parameter, type_of
from dradriver.cel.evaluate.steps import Work

__all__ = ["Cost", "Implementation", "Overload", "function", "method", "never_called", "unit_cost"]

Implementation: TypeAlias = Callable[..., object]
Cost: TypeAlias = Callable[..., int]
"""Computes the cost of a call from its arguments and its result: `cost(args, result)`."""


def unit_cost(args: list[object], result: object) -> int:  # noqa: ARG001 - the shape of every cost function
    """Return 1: the cost of a call if it does not depend on sizes."""
    return 1


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function.

    Attributes:
        name: name of the function: `size`, `lists.range`, `_+_`.
        is_method: whether the first parameter is the receiver: `x.size()`.
        params: the types of the parameters.
        result: the type of the result.
        call: the implementation. It may raise `ErrorValue`.
        cost: returns the cost of a call in CEL's units.
        work: called with the arguments before a call; returns the number of steps that the call needs in
            addition to the fixed steps of every call. None: it needs no additional steps.
        metered: whether `call` has a keyword argument `spend` with which it counts steps while it works,
            because the number of steps is not known in advance. The argument must have a default that counts
            nothing, for calls from the fast path.
        guarded: whether arguments are matched against `params` before the call.
    """

    name: str
    is_method: bool
    params: tuple[CelType, ...]
    result: CelType
    call: Implementation
    cost: Cost
    guarded: bool = True
    work: Work | None = None
    metered: bool = False


def never_called(*args: object) -> object:
    """Raise an error. The compiler emits jumps or paths instead of a call, so this is never called."""
    raise AssertionError(args)


def function(
    signature: str,
    call: Implementation,
    cost: Cost = unit_cost,
    *,
    guarded: bool = True,
    work: Work | None = None,
    metered: bool = False,
) -> Overload:
    """Return a global function: `function("size(list(A)): int", len)`. `A` is a type parameter."""
    name, params, result = _parse(signature)
    return Overload(name, False, params, result, call, cost, guarded, work, metered)  # noqa: FBT003


def method(
    signature: str,
    call: Implementation,
    cost: Cost = unit_cost,
    *,
    guarded: bool = True,
    work: Work | None = None,
    metered: bool = False,
) -> Overload:
    """Return a method. Its first parameter is the receiver."""
    name, params, result = _parse(signature)
    return Overload(name, True, params, result, call, cost, guarded, work, metered)  # noqa: FBT003


_CONTAINERS: Final[dict[str, Callable[..., CelType]]] = {
    "list": list_of, "map": map_of, "optional": optional_of, "type": type_of,
}  # fmt: skip
_SIGNATURE: Final = re.compile(r"([^(]+)\((.*)\): (.+)")
_WORD: Final = re.compile(r"[A-Za-z]+|[(),]")


def _parse(signature: str) -> tuple[str, tuple[CelType, ...], CelType]:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(f"not a signature: {signature}")
    name, params, result = match.groups()
    return (
        name,
        _types(_WORD.findall(params + ")").__iter__()),
        _types(_WORD.findall(result + ")").__iter__())[0],
    )


def _types(words: Iterator[str]) -> tuple[CelType, ...]:
    parsed: list[CelType] = []
    pending = ""
    for word in words:
        if word == "(":
            parsed.append(_CONTAINERS[pending](*_types(words)))
            pending = ""
        elif word in {",", ")"}:
            if pending:
                parsed.append(NAMED.get(pending) or parameter(pending))
            pending = ""
            if word == ")":
                break
        else:
            pending = word
    return tuple(parsed)
