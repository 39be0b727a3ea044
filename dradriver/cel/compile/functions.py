"""Functions as the checker and the evaluator see them, and the notation in which libraries declare them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.cel.compile.types import NAMED, CelType, list_of, map_of, optional_of, parameter, type_of
from dradriver.cel.evaluate.steps import Work

__all__ = ["Cost", "Implementation", "Overload", "function", "method", "unit"]

Implementation: TypeAlias = Callable[..., object]
Cost: TypeAlias = Callable[..., int]
"""Returns the cost of a call from its arguments and its result: `cost(args, result)`."""


def unit(args: list[object], result: object) -> int:  # noqa: ARG001 - the shape of every cost function
    """Return the cost of a call that does not depend on sizes."""
    return 1


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function.

    Attributes:
        name: name of the function: `size`, `lists.range`, `_+_`.
        is_method: whether the first parameter is the receiver: `x.size()`.
        params: the types of the parameters.
        result: the type of the result.
        call: the implementation; raises `ErrorValue`.
        cost: returns the cost of a call, in CEL's units.
        work: returns the number of steps of a call, before the call; None: no more than for every call.
        metered: whether `call` has a keyword `spend`, which counts steps during the work, for work whose size
            is not known before. For calls by the fast path, the keyword has a default that counts nothing.
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


def function(
    signature: str,
    call: Implementation,
    cost: Cost = unit,
    *,
    guarded: bool = True,
    work: Work | None = None,
    metered: bool = False,
) -> Overload:
    """Return a global function: `function("size(list(A)): int", len)`; single capitals are type parameters."""
    name, params, result = _parse(signature)
    return Overload(name, False, params, result, call, cost, guarded, work, metered)  # noqa: FBT003


def method(
    signature: str,
    call: Implementation,
    cost: Cost = unit,
    *,
    guarded: bool = True,
    work: Work | None = None,
    metered: bool = False,
) -> Overload:
    """Return a method. The receiver is its first parameter."""
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
    found: list[CelType] = []
    pending = ""
    for word in words:
        if word == "(":
            found.append(_CONTAINERS[pending](*_types(words)))
            pending = ""
        elif word in {",", ")"}:
            if pending:
                found.append(NAMED.get(pending) or parameter(pending))
            pending = ""
            if word == ")":
                break
        else:
            pending = word
    return tuple(found)
