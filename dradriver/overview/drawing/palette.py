"""The colors of drawings, in light and in dark, as a style sheet."""

from collections.abc import Iterable, Mapping
from typing import Final

from dradriver.overview.drawing.marks import COLORS

__all__ = ["DARK", "LIGHT", "card_style"]

LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#16191d",
    "dim": "#545b64",
    "line": "#7a828c",
    "free": "#e9ecf0",
    "bad": "#a4161a",
    "c0": "#7fb3e6",
    "c1": "#f2b134",
    "c2": "#7ccba2",
    "c3": "#f08a7d",
    "c4": "#c3a6e0",
    "c5": "#d9c36a",
    "c6": "#6fd3d6",
    "c7": "#e8a1c8",
}
"""Colors by name. `c0` to `c7` are colors of claims, on which text has the color `ink`."""
DARK: Final[Mapping[str, str]] = {
    "paper": "#14171a",
    "panel": "#1d2125",
    "ink": "#f2f4f6",
    "dim": "#a9b1ba",
    "line": "#7f8993",
    "free": "#2c3238",
    "bad": "#ff8a80",
    "c0": "#2b6cb0",
    "c1": "#8a5a00",
    "c2": "#2a7550",
    "c3": "#ab4034",
    "c4": "#7a55a6",
    "c5": "#736210",
    "c6": "#1b7278",
    "c7": "#a2457f",
}

_RULES: Final = (
    "svg.card{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}",
    "svg.card text{fill:var(--ink)}",
    "svg.card text.dim{fill:var(--dim)}",
    "svg.card text.bad{fill:var(--bad);font-weight:700}",
    "svg.card text.head{font-weight:700;font-size:14px}",
    "svg.card text.letter{text-anchor:middle;font-weight:700}",
    "svg.card text.end{text-anchor:end}",
    "svg.card .free{fill:var(--free);stroke:var(--line)}",
    "svg.card .cell{stroke:var(--line);stroke-width:.7;fill:none}",
    "svg.card .hatch{stroke:var(--ink);stroke-width:1.4;fill:none;opacity:.55}",
    "svg.card .part{stroke:var(--ink);stroke-width:1.2}",
    *(f"svg.card .c{number}{{fill:var(--c{number})}}" for number in range(COLORS)),
    *(f".k{number}{{background:var(--c{number})}}" for number in range(COLORS)),
    *(
        f"svg.card .s{number}{{stroke:var(--c{number});stroke-width:5px;paint-order:stroke}}"
        for number in range(COLORS)
    ),
)


def card_style(root: str = ":root") -> str:
    """Return the style sheet that the elements of `draw_card`, and the keys of their legends, need.

    Args:
        root: CSS selector of the element that gets the colors as custom properties.
    """
    light, dark = _properties(LIGHT.items()), _properties(DARK.items())
    return "\n".join(
        [
            f"{root}{{color-scheme:light dark;{light}}}",
            f"@media (prefers-color-scheme:dark){{{root}{{{dark}}}}}",
            *_RULES,
        ]
    )


def _properties(colors: Iterable[tuple[str, str]]) -> str:
    return ";".join(f"--{name}:{color}" for name, color in colors)
