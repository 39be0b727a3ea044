"""Draws cards as one HTML file without scripts: it works offline, and in light and in dark."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from dradriver.overview.drawing.marks import (
    DeviceNodes,
    Mark,
    count_fitting,
    mark_devices,
    sort_for_legend,
)
from dradriver.overview.drawing.palette import card_style
from dradriver.overview.drawing.sections import DrawnSection, list_sections
from dradriver.overview.drawing.svg import draw_card
from dradriver.overview.values import Card, Overview

__all__ = ["PAGE_STYLE", "draw_card_article", "draw_page", "draw_section", "wrap_page"]

PAGE_STYLE: Final = """\
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:90rem;background:var(--paper);color:var(--ink);
font:1rem/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem}
h2{font-size:1.15rem;margin:2rem 0 .25rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:0;overflow-wrap:anywhere}
h4{font-size:1rem;margin:0}
p{margin:.15rem 0;overflow-wrap:anywhere}
.dim{color:var(--dim)}
.bad{color:var(--bad);font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,23.5rem),1fr));gap:1rem;margin-top:.75rem}
.compared{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:.5rem 2rem;
margin-top:.75rem}
article{background:var(--panel);border:1px solid var(--free);border-radius:.5rem;padding:.9rem}
article svg{display:block;width:100%;max-width:32rem;height:auto;margin:.6rem 0}
ul.legend{list-style:none;margin:.4rem 0;padding:0}
ul.legend li{display:flex;gap:.5rem;margin:.2rem 0;overflow-wrap:anywhere}
ul.legend li>span:last-child{min-width:0}
.key{flex:none;width:1.4rem;height:1.4rem;text-align:center;font:700 .8rem/1.3rem ui-monospace,monospace;
border:1px solid var(--line);border-radius:.2rem}
details{margin:.3rem 0}
summary{cursor:pointer}
table{border-collapse:collapse;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--free);
overflow-wrap:break-word}
@media print{article{break-inside:avoid}}
"""

_MAX_NAMES: Final = 4


def draw_page(overview: Overview, title: str) -> str:
    """Return the cards of a cluster as the text of an HTML file.

    Args:
        overview: the cluster.
        title: title of the page.
    """
    sections = [draw_section(section) for section in list_sections(overview)]
    return wrap_page(title, sections or ['<p class="dim">No devices.</p>'])


def wrap_page(title: str, content: Iterable[str]) -> str:
    """Return the text of an HTML file.

    Args:
        title: title of the page.
        content: the elements of the page.
    """
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{card_style()}\n{PAGE_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
        *content,
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def draw_section(section: DrawnSection, level: int = 2) -> str:
    """Return a node, or a pool that several nodes reach, as an HTML element.

    Args:
        section: the node or pool.
        level: level of the heading.
    """
    style = "bad" if section.is_problem else "dim"
    remarks = "".join(f'<p class="{style}">{escape(remark)}</p>' for remark in section.remarks)
    cards = "\n".join(draw_card_article(card, level + 1, section.device_nodes) for card in section.cards)
    return (
        f"<section>\n<h{level}>{escape(section.name)}</h{level}>{remarks}\n"
        f'<div class="cards">\n{cards}\n</div>\n</section>'
    )


def draw_card_article(card: Card, level: int = 3, device_nodes: DeviceNodes | None = None) -> str:
    """Return a card with its legend as an HTML element.

    Args:
        card: the card.
        level: level of the heading.
        device_nodes: `Reach.device_nodes` of a pool that several nodes reach.
    """
    product = f'<p class="dim">{escape(card.product)}</p>' if card.product else ""
    items = "\n".join(_legend(mark_devices(card, device_nodes)))
    legend = f'<ul class="legend">{items}</ul>' if items else ""
    drawing = draw_card(card, device_nodes=device_nodes)
    return (
        f"<article>\n<h{level}>{escape(card.name)}</h{level}>"
        f'<p class="dim">{escape(card.driver)}/{escape(card.pool)}</p>{product}\n{drawing}\n'
        f"{legend}{_fitting(card)}\n</article>"
    )


def _legend(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in sort_for_legend(marks):
        color = f" k{mark.color}" if mark.color is not None else ""
        users, problems = escape(", ".join(mark.users)), escape(", ".join(mark.problems))
        yield (
            f'<li><span class="key{color}">{mark.letter}</span>'
            f'<span>{escape(mark.device.name)}<br><span class="dim">{users}</span>'
            f'{f"""<br><span class="bad">{problems}</span>""" if problems else ""}</span></li>'
        )


def _fitting(card: Card) -> str:
    summary, names = escape(count_fitting(card)), escape(", ".join(card.fitting))
    if len(card.fitting) > _MAX_NAMES:
        return f"<details><summary>{summary}</summary><p>{names}</p></details>"
    return f'<p class="dim">{summary}{": " if names else ""}{names}</p>'
