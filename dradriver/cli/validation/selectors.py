"""Warns about selectors that compile but never match as intended."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from dradriver.cli.files import Document
from dradriver.errors import Problem

__all__ = ["selector_warnings"]

_TYPED: Final = re.compile(r"""device\.attributes\[\s*(["'])([^"']*)\1\s*\]\.(string|bool|int|version)\b""")
"""A form from the examples of KEP-5963, which write an attribute as in a slice."""


def selector_warnings(document: Document) -> Iterator[Problem]:
    """Yield a warning for each expression that uses the type of an attribute as a part of its path."""
    for path, expression in _expressions(document.body, ""):
        for _, name, kind in _TYPED.findall(expression):
            rule = (
                f'device.attributes["{name}"].{kind} is the attribute {kind!r} of the domain {name!r}; '
                f'a value is written device.attributes["DOMAIN"].NAME, without its type'
            )
            yield Problem(path, rule)


def _expressions(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            here = f"{path}.{key}" if path else str(key)
            if key == "expression" and isinstance(inside, str):
                yield here, inside
            elif key != "parameters":
                yield from _expressions(inside, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _expressions(item, f"{path}[{index}]")
