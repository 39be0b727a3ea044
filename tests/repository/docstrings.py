"""Check the docstrings of front doors against docs/style.md: `python -m tests.repository.docstrings`.

A front door is a package whose `__init__.py` has `__all__`. Its functions, and the public methods of its
classes, describe each argument under `Args`, and the result under `Returns` or in the first line. A method that
overrides a documented one of the same distribution needs neither. A command's docstring is its help text.
Ruff's D417 compares the names under `Args` with the signature.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (
    "dradriver",
    "drivers/gpu_mig/dradriver_gpu_mig",
    "drivers/fpga/dradriver_fpga",
    "drivers/fabric_cxl/dradriver_fabric_cxl",
)
_GENERATED: Final = ("wire/", "cli/skeleton")
_RESULT_VERBS: Final = ("return", "yield")
_IMPLICIT: Final = ("self", "cls")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """Definitions of one module.

    Attributes:
        path: the file.
        definitions: classes and functions at the top level, by name.
        imports: module and name of each imported name.
        exported: the names in `__all__`.
    """

    path: Path
    definitions: Mapping[str, ast.ClassDef | Function] = field(default_factory=dict)
    imports: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    exported: tuple[str, ...] = ()


def read_module(path: Path) -> Module:
    """Read the definitions of one module.

    Args:
        path: a Python file.
    """
    definitions: dict[str, ast.ClassDef | Function] = {}
    imports: dict[str, tuple[str, str]] = {}
    exported: tuple[str, ...] = ()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            definitions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported = tuple(ast.literal_eval(node.value)) if isinstance(node.value, ast.List) else ()
    return Module(path, definitions, imports, exported)


def read_modules(source: Path) -> dict[str, Module]:
    """Return the modules of a distribution by dotted name.

    Args:
        source: folder of its package.
    """
    return {
        ".".join((source.name, *path.relative_to(source).with_suffix("").parts)).removesuffix(".__init__"): (
            read_module(path)
        )
        for path in sorted(source.rglob("*.py"))
        if not any(part in path.as_posix() for part in _GENERATED)
    }


def problems(modules: Mapping[str, Module]) -> list[str]:
    """Return one line for each public function without a section that it needs.

    Args:
        modules: the modules of a distribution by dotted name.
    """
    found = dict.fromkeys(
        line
        for module in modules.values()
        if module.path.name == "__init__.py"
        for name in module.exported
        for line in _of_name(modules, module, name)
    )
    return list(found)


def _of_name(modules: Mapping[str, Module], module: Module, name: str) -> Iterator[str]:
    place = _find(modules, module, name)
    if place is None:
        return
    home, definition = place
    if not isinstance(definition, ast.ClassDef):
        yield from _of_function(home.path, definition.name, definition)
        return
    for method in definition.body:
        if (
            isinstance(method, Function)
            and not method.name.startswith("_")
            and not _overrides(modules, home, definition, method.name)
        ):
            yield from _of_function(home.path, f"{definition.name}.{method.name}", method)


def _find(
    modules: Mapping[str, Module], module: Module, name: str
) -> tuple[Module, ast.ClassDef | Function] | None:
    if name in module.definitions:
        return module, module.definitions[name]
    if name in module.imports:
        home, original = module.imports[name]
        if home in modules:
            return _find(modules, modules[home], original)
    return None


def _overrides(modules: Mapping[str, Module], home: Module, definition: ast.ClassDef, method: str) -> bool:
    for base in definition.bases:
        name = base.value if isinstance(base, ast.Subscript) else base
        place = _find(modules, home, name.id) if isinstance(name, ast.Name) else None
        if place is None or not isinstance(place[1], ast.ClassDef):
            continue
        if any(isinstance(item, Function) and item.name == method for item in place[1].body):
            return True
        if _overrides(modules, place[0], place[1], method):
            return True
    return False


def _of_function(path: Path, name: str, function: Function) -> Iterator[str]:
    if _has_decorator(function, "command"):
        return
    text = ast.get_docstring(function) or ""
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if any(argument.arg not in _IMPLICIT for argument in named) and "Args:" not in text:
        yield f"{place}:{function.lineno}: {name} has no section Args"
    result = ast.unparse(function.returns) if function.returns else "None"
    if result not in {"None", "NoReturn"} and "Returns:" not in text and "Yields:" not in text:
        if text.lower().startswith(_RESULT_VERBS) or _has_decorator(function, "property"):
            return
        yield f"{place}:{function.lineno}: {name} returns {result}, and the docstring does not describe it"


def _has_decorator(function: Function, word: str) -> bool:
    return any(word in ast.unparse(decorator) for decorator in function.decorator_list)


def main() -> int:
    """Print the problems of the tree; return 1 if there are any."""
    found = [line for source in SOURCES for line in problems(read_modules(ROOT / source))]
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
