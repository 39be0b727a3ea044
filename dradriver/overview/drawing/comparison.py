"""Draws what a simulation changes: the cards before and after, side by side."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dradriver.overview.drawing.page import draw_card_article, wrap_page
from dradriver.overview.drawing.sections import DrawnSection, list_sections
from dradriver.overview.values import Overview

__all__ = ["draw_comparison"]


def draw_comparison(before: Overview, after: Overview, title: str, rows: Iterable[Sequence[str]]) -> str:
    """Return two states of a cluster as the text of an HTML file. Nodes without changes are only counted.

    Args:
        before: the cluster before.
        after: the cluster after.
        title: title of the page.
        rows: for each pod or claim of the simulation: its name, and the result in one sentence.
    """
    first = {section.name: section for section in list_sections(before)}
    second = {section.name: section for section in list_sections(after)}
    changed = [name for name, section in second.items() if first.get(name) != section]
    content = [*_table(rows)]
    if unchanged := len(second) - len(changed):
        noun = "nodes and shared pools" if len(second) > 1 else "node or shared pool"
        content.append(f'<p class="dim">{unchanged} of {len(second)} {noun} without a change</p>')
    content += (_compare(first[name], second[name]) for name in changed)
    return wrap_page(title, content)


def _compare(before: DrawnSection, after: DrawnSection) -> str:
    """Return the cards of a section that change, each before and after."""
    old = {(card.driver, card.pool, card.name): card for card in before.cards}
    rows = [f"<h2>{escape(after.name)}</h2>"]
    for card in after.cards:
        states = {"before": old[card.driver, card.pool, card.name], "after": card}
        if states["before"] != card:
            rows.append('<div class="compared">')
            for moment, state in states.items():
                article = draw_card_article(state, 4, after.device_nodes)
                rows.append(f'<div><h3 class="dim">{moment}</h3>\n{article}\n</div>')
            rows.append("</div>")
    return "\n".join(rows)


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    cells = [f'<tr><th scope="row">{escape(name)}</th><td>{escape(result)}</td></tr>' for name, result in rows]
    if cells:
        yield "<table>\n" + "\n".join(cells) + "\n</table>"
