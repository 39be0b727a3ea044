"""Check the words of the code against docs/glossary.md: `python -m tests.repository.words`.

A class name occurs once in a distribution and the public names of `dradriver` occur nowhere else. Names of
modules, classes and functions contain no retired word.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import dradriver

ROOT: Final = Path(__file__).parents[2]
DISTRIBUTIONS: Final = ("dradriver", "drivers/gpu_mig", "drivers/fpga", "examples/loop")
_GENERATED: Final = ("wire/kubelet", "cli/skeleton")

RETIRED: Final = {
    "crowds": "counter bound",
    "culprits": "conflicting devices",
    "desk": "publish context",
    "doubts": "unconfirmed writes",
    "interests": "queueing hints",
    "ledger": "usage index",
    "promises": "assumed allocations",
    "stock": "node signature",
    "todo": "attachment diff",
    "tries": "attempts",
    "turns": "publish election",
    "wish": "claim shape",
    "wishes": "claim shapes",
}
"""Retired words and their replacements; docs/glossary.md has the same list."""


class Name(NamedTuple):
    """A name that a module defines.

    Attributes:
        text: the name, or the module's own.
        is_class: whether it is a class.
        place: `file:line`.
    """

    text: str
    is_class: bool
    place: str


def names(path: Path) -> Iterator[Name]:
    """Return the name of a module and of its public classes and functions.

    Args:
        path: a Python file.
    """
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    yield Name(path.stem, is_class=False, place=f"{place}:1")
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield Name(node.name, isinstance(node, ast.ClassDef), f"{place}:{node.lineno}")


def words_of(name: str) -> list[str]:
    """Split a name in snake case or camel case into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def problems(distributions: Mapping[str, Iterable[Path]], public: Iterable[str]) -> list[str]:
    """Return one line for each name that breaks a rule.

    Args:
        distributions: the Python files of each distribution.
        public: the public names of `dradriver`, which no other distribution may define.
    """
    found = []
    reserved = set(public)
    for distribution, files in distributions.items():
        places = defaultdict(list)
        for name in (name for path in sorted(files) for name in names(path)):
            if name.is_class:
                places[name.text].append(name.place)
            if distribution != "dradriver" and name.is_class and name.text in reserved:
                found.append(f"{name.place}: class {name.text} has the name of a public class of dradriver")
            found += [
                f"{name.place}: {name.text} contains {word!r}: use {RETIRED[word]!r}"
                for word in words_of(name.text)
                if word in RETIRED
            ]
        found += [
            f"{first}: class {text} exists also at {', '.join(others)}"
            for text, (first, *others) in places.items()
            if others
        ]
    return found


def python_files(folder: Path) -> list[Path]:
    """Return the Python files of a distribution that people write."""
    return [
        path
        for path in folder.rglob("*.py")
        if "tests" not in path.relative_to(folder).parts
        and not any(part in path.as_posix() for part in _GENERATED)
    ]


def main() -> int:
    """Print the problems of the tree; return 1 if there are any."""
    found = problems({name: python_files(ROOT / name) for name in DISTRIBUTIONS}, dradriver.__all__)
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
