"""The files in docs/pictures are what `make pictures` writes."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from website.pictures import PICTURES

FOLDER = Path(__file__).parents[3] / "docs/pictures"


def test_each_file_is_a_picture_that_the_code_draws() -> None:
    assert sorted(each.name for each in FOLDER.iterdir()) == sorted(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), "run `make pictures`"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_complete_without_a_network_and_has_a_description(name: str) -> None:
    root = ET.fromstring(PICTURES[name]())
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title")
    assert root.findtext(f"{space}desc")
    assert [each.tag for each in root.iter() if any("href" in name for name in each.attrib)] == []
    assert root.find(f".//{space}script") is None


def test_the_picture_of_the_states_has_each_change_of_the_table() -> None:
    drawn = PICTURES["claim-states.svg"]()
    assert "absent to preparing: begin prepare" in drawn
    assert "prepared to preparing: reboot" in drawn
