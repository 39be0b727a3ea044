"""The public API as text, one name in a line: names, parameters and defaults (mypy checks the types).

python -m tests.repository.public_api > tests/repository/public_api.txt
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType
from typing import cast

import dradriver
import dradriver.testing


def lines() -> Iterator[str]:
    """Return the text."""
    for module in (dradriver, dradriver.testing):
        for name in sorted(module.__all__):
            yield from _described(module, name)


def _described(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)
    full = f"{module.__name__}.{name}"
    if not isinstance(value, type):
        yield full + (_signature(value) if inspect.isroutine(value) else f" = {value}")
        return
    if issubclass(value, Enum):
        yield f"{full}: {', '.join(member.name for member in value)}"
        return
    yield full + _signature(value)
    own = [each for each in reversed(value.__mro__) if each.__module__.startswith("dradriver.")]
    members = {name: member for each in own for name, member in vars(each).items()}
    for attribute, member in sorted(members.items()):
        if attribute.startswith("_") or attribute in getattr(value, "__struct_fields__", ()):
            continue
        described = _member(member)
        if described is not None:
            yield f"  {name}.{attribute}{described}"


def _member(member: object) -> str | None:
    match member:
        case staticmethod() | classmethod():
            return _signature(member.__func__)
        case property():
            return ": property"
        case _ if inspect.isfunction(member):
            return _signature(member)
        case _:
            return None


def _signature(value: object) -> str:
    if isinstance(value, type) and issubclass(value, (Exception, str)) and "__init__" not in vars(value):
        return ""  # Python's text for these depends on its version
    signature = inspect.signature(cast(Callable[..., object], value))
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
