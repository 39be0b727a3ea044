"""Check the words of the code against docs/glossary.md: `python -m tests.repository.words`.

A class name occurs once in a distribution and the public names of `dradriver` occur nowhere else. No name in
the code, from a module's to a local variable's, contains a retired word.
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
DISTRIBUTIONS: Final = ("dradriver", "drivers/gpu_mig", "drivers/fpga", "drivers/fabric_cxl", "examples/loop")
_GENERATED: Final = ("wire/kubelet", "cli/skeleton")

RETIRED: Final = {
    "crowds": "counter bound",
    "culprits": "conflicting devices",
    "desk": "publish context",
    "doubts": "unconfirmed writes",
    "interests": "queueing hints",
    "ledger": "usage index",
    "mistakes": "errors",
    "patience": "binding deadline",
    "promises": "assumed allocations",
    "said": "conditions, or the message",
    "stock": "node signature",
    "todo": "attachment diff",
    "told": "reported",
    "tries": "attempts",
    "turns": "publish election",
    "wish": "claim shape",
    "wishes": "claim shapes",
}
"""Retired words and their replacements; docs/glossary.md has the same list."""


class Name(NamedTuple):
    """A name in a module.

    Attributes:
        text: the name, or the module's own.
        is_class: whether it is a public class at the top level.
        place: `file:line`.
    """

    text: str
    is_class: bool
    place: str


def names(path: Path) -> Iterator[Name]:
    """Yield the name of a module and all names that it defines: classes, functions, arguments, variables.

    Args:
        path: a Python file.
    """
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    tree = ast.parse(path.read_text())
    public = {node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"}
    yield Name(path.stem, is_class=False, place=f"{place}:1")
    for node in ast.walk(tree):
        if text := _defined_name(node):
            yield Name(text, node in public, f"{place}:{getattr(node, 'lineno', 1)}")


def _defined_name(node: ast.AST) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.arg():
            return node.arg
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.attr
        case _:
            return ""


def words_of(name: str) -> list[str]:
    """Split a name in snake case or camel case into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def problems(distributions: Mapping[str, Iterable[Path]], public: Iterable[str]) -> list[str]:
    """Return one line for each name that breaks a rule.

    Args:
        distributions: the Python files of each distribution.
        public: the public names of `dradriver`, which no other distribution may define.
    """
    found: list[str] = []
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
