"""Drawings as files: complete, self-contained, accessible, and unchanged unless somebody wants it.

To write the golden files again: `python -m tests.unit.overview.test_drawings`.
"""

import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from dradriver.model.resource.device import Device
from dradriver.overview import Overview, build_overview
from dradriver.overview.drawing.document import draw_document
from dradriver.overview.drawing.marks import mark_devices
from dradriver.overview.drawing.page import draw_page
from dradriver.overview.drawing.palette import DARK, LIGHT
from dradriver.overview.drawing.svg import draw_card
from dradriver.testing.builders import slice_
from tests.unit.overview.clusters import CLUSTERS, mig
from tests.unit.overview.objects import NOW, holding, mig_slices, only_card, overview, rule

GOLDEN: Final = Path(__file__).parent / "golden"
DRAWINGS: Final[Mapping[str, Callable[[Overview, str], str]]] = {"svg": draw_document, "html": draw_page}
NAMESPACE: Final = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("form", DRAWINGS)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_drawings_are_those_of_the_golden_files(cluster: str, form: str) -> None:
    drawn = DRAWINGS[form](CLUSTERS[cluster](), f"Devices: {cluster}")
    assert drawn == (GOLDEN / f"{cluster}.{form}").read_text(encoding="utf-8")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_an_svg_file_is_well_formed_xml_with_a_title(cluster: str) -> None:
    root = ET.fromstring(draw_document(CLUSTERS[cluster](), "a < b"))
    assert root.tag == f"{NAMESPACE}svg"
    assert root.findtext(f"{NAMESPACE}title") == "a < b"


def test_an_svg_file_has_room_for_every_text() -> None:
    root = ET.fromstring(draw_document(mig(), "Devices"))
    texts = [each.text or "" for each in root.iter(f"{NAMESPACE}text")]
    assert max(map(len, texts)) * 7 < float(root.attrib["width"])
    assert any("gpu-0-mig-3g-20gb-0" in text for text in texts)


@pytest.mark.parametrize("form", DRAWINGS)
def test_a_drawing_refers_to_no_other_file_and_runs_no_script(form: str) -> None:
    drawn = DRAWINGS[form](mig(), "Devices")
    assert not re.search(r"<script|<link|@import|url\(|href=|src=|javascript:", drawn)
    assert set(re.findall(r"https?://[^\"' ]*", drawn)) <= {"http://www.w3.org/2000/svg"}


def test_names_are_escaped() -> None:
    drawn = draw_page(mig(), "<b>")
    assert "<test>" not in drawn
    assert "&lt;test&gt;:NoSchedule" in drawn
    assert "<h1>&lt;b&gt;</h1>" in drawn


def test_a_tainted_device_that_is_not_in_use_is_hatched_in_its_place() -> None:
    shown = overview(slice_(*map(Device, "abcd")), rule("repair", "repair:NoSchedule", device="c"))
    card = only_card(shown)
    assert [(card.listed[part.device].name, part.start, part.end) for part in card.lanes[0].unused] == [
        ("c", 0.5, 0.75)
    ]
    drawn = draw_card(card)
    assert drawn.count('class="hatch"') == 1
    assert "- c: not in use, taint repair:NoSchedule" in drawn
    assert "part c" not in drawn


class Tags(HTMLParser):
    """Checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: object) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_page_closes_its_elements_and_skips_no_level_of_headings(cluster: str) -> None:
    tags = Tags()
    tags.feed(draw_page(CLUSTERS[cluster](), "Devices"))
    assert not tags.open
    assert tags.headings[0] == 1
    assert all(after <= before + 1 for before, after in zip(tags.headings, tags.headings[1:], strict=False))


def test_the_description_of_a_card_has_all_that_the_drawing_shows() -> None:
    (node, _) = mig().nodes.values()
    root = ET.fromstring(draw_card(node.cards[1]))
    text = root.findtext(f"{NAMESPACE}desc") or ""
    for part in ("memory-slice: 8 of 8 used.", "default/whole", "unhealthy", "repair:NoSchedule", "0 of 25"):
        assert part in text


def test_devices_of_one_claim_have_one_color_and_other_claims_other_colors() -> None:
    claims = [holding(f"claim-{number}", f"gpu-0-mig-1g-5gb-{number}") for number in range(7)]
    marks = mark_devices(only_card(overview(*mig_slices(), *claims)))
    assert len({mark.color for mark in marks}) == 7
    both = holding("both", "gpu-0-mig-1g-5gb-0", "gpu-0-mig-1g-5gb-1")
    first, second = mark_devices(only_card(overview(*mig_slices(), both)))
    assert first.color == second.color
    assert (first.letter, second.letter) == ("A", "B")


def test_a_cluster_without_devices_is_drawn_as_such() -> None:
    nothing = build_overview((), (), (), (), (), NOW)
    assert "no devices" in draw_document(nothing, "Devices")
    assert "No devices." in draw_page(nothing, "Devices")


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_wants(colors: Mapping[str, str]) -> None:
    grounds = ["paper", "panel", *(name for name in colors if re.fullmatch(r"c\d", name))]
    low = {ground: contrast(colors["ink"], colors[ground]) for ground in grounds}
    low |= {
        f"{text} on {ground}": contrast(colors[text], colors[ground])
        for text in ("dim", "bad")
        for ground in ("paper", "panel")
    }
    assert not {pair: ratio for pair, ratio in low.items() if ratio < 4.5}
    assert contrast(colors["line"], colors["paper"]) >= 3


def write_golden() -> None:
    """Write the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    for cluster, make in CLUSTERS.items():
        for form, draw in DRAWINGS.items():
            text = draw(make(), f"Devices: {cluster}")
            (GOLDEN / f"{cluster}.{form}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_golden()
