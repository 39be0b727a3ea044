"""Warns about selectors that compile but never match."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from dradriver.cli.files import Document
from dradriver.cli.validation.corrections import is_quantity
from dradriver.errors import Problem

__all__ = ["selector_warnings"]

_TYPED: Final = re.compile(r"""device\.attributes\[\s*(["'])([^"']*)\1\s*\]\.(string|bool|int|version)\b""")
"""Matches an attribute with its type, as in a slice. The examples of KEP-5963 use this form."""

_QUANTITY: Final = re.compile(r"""\bquantity\(\s*(["'])([^"']*)\1\s*\)""")
"""Matches a quantity in a selector. The compiler accepts any text, because it is read by the evaluation."""


def selector_warnings(document: Document) -> Iterator[Problem]:
    """Yield a warning for each quantity that cannot be read, and each attribute whose path ends with its type.

    An example is `device.attributes["a"].string`, which copies the form of a ResourceSlice.

    Args:
        document: an object with selectors.
    """
    for path, expression in _expressions(document.body, ""):
        for _, name, kind in _TYPED.findall(expression):
            rule = (
                f'device.attributes["{name}"].{kind} is the attribute {kind!r} of the domain {name!r}; '
                f'write a value as device.attributes["DOMAIN"].NAME, without its type'
            )
            yield Problem(path, rule)
        for _, text in _QUANTITY.findall(expression):
            if not is_quantity(text):
                rule = f"quantity('{text}') is not a quantity, so the evaluation always fails"
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
