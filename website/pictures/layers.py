"""The layers of dradriver's packages, from the contract that import-linter checks."""

import tomllib
from pathlib import Path
from typing import Any, Final

from website.pictures.drawing import Drawing

__all__ = ["draw_layers"]

_PROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"
_WIDTH: Final = 760
_HEIGHT: Final = 44


def draw_layers() -> str:
    """Return the SVG of the layers, the highest first.

    Raises:
        LookupError: pyproject.toml has no contract "dradriver is layered".
    """
    layers = _read_layers()
    description = "; ".join(f"layer {index}: {', '.join(names)}" for index, names in enumerate(layers, 1))
    drawing = Drawing("The layers of dradriver", description, (_WIDTH, _HEIGHT * len(layers) + 16))
    for index, names in enumerate(layers):
        y = 8 + _HEIGHT * (index + 0.5)
        width = (_WIDTH - 16) / len(names)
        for column, name in enumerate(names):
            drawing.add_box((8 + width * (column + 0.5), y), (width - 8, _HEIGHT - 8), name)
    return drawing.render()


def _read_layers() -> list[list[str]]:
    project: dict[str, Any] = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["name"] == "dradriver is layered":
            return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    raise LookupError('pyproject.toml has no contract "dradriver is layered"')
