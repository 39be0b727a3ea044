"""Pictures become the golden screens, line for line."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dradriver.cli.top.items import ItemFilter
from dradriver.cli.top.layout import draw_everything, draw_screen
from dradriver.cli.top.spans import plain_text
from dradriver.cli.top.state import ScreenState, keep_selection
from dradriver.overview.values import NodeOverview, Overview, RecentChange
from tests.unit.cli.top.pictures import (
    GOLDEN,
    NOW,
    SCREENS,
    cluster,
    detail_of,
    mig_card,
    picture,
    screen,
    superpod,
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Screens show local times."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    if before is None:
        monkeypatch.delenv("TZ")
    else:
        monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_picture_becomes_its_golden_screen(name: str) -> None:
    assert GOLDEN[name]() + "\n" == (SCREENS / f"{name}.txt").read_text()


def test_every_golden_screen_is_drawn() -> None:
    assert {path.stem for path in SCREENS.iterdir()} == set(GOLDEN)


@pytest.mark.parametrize("view", ["devices", "detail", "waiting", "changes", "problems", "help"])
@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (7, 3), (20, 5), (80, 24), (131, 18), (200, 60), (400, 9)]
)
def test_a_screen_of_any_size_is_filled_exactly(view: str, width: int, height: int) -> None:
    state = keep_selection(ScreenState(view), picture(cluster()).index.shown(ItemFilter()))  # type: ignore[arg-type]
    lines = draw_screen(picture(cluster()), state, width, height).lines
    assert len(lines) == height
    if width >= 80:
        assert max(len(plain_text(line)) for line in lines) <= width


def test_the_selected_row_is_visible_wherever_it_is() -> None:
    nodes = [NodeOverview(f"node-{number}", True, (mig_card(),)) for number in range(5000)]
    of = picture(Overview({node.name: node for node in nodes}))
    shown = of.index.shown(ItemFilter())
    first = 0
    for at in (0, 30, 4999, 2500, 2499, 0):
        state = ScreenState(selected=shown[at], at=at, first=first)
        frame = draw_screen(of, state, 80, 24)
        assert any(plain_text(line).startswith(f"> node-{at} ") for line in frame.lines)
        first = frame.first


def test_a_list_that_does_not_fit_shows_its_position_and_a_row_for_each_long_name() -> None:
    names = [f"ip-10-0-{number}-17.eu-central-1.compute.internal" for number in range(1000)]
    of = picture(Overview({name: NodeOverview(name, True, (mig_card(),)) for name in names}))
    lines = screen(ScreenState(), 80, 24, of).splitlines()
    assert lines[2].endswith(" 1-14 of 1,000")
    assert lines[3].startswith("> ip-10-0-0-17..ute.internal   62%     2  [AAAAB...]")
    assert names[0] in "\n".join(map(plain_text, draw_everything(of, ScreenState(), 80)))


def test_a_view_does_not_scroll_beyond_its_end() -> None:
    state = ScreenState("help", offset=1000)
    frame = draw_screen(picture(cluster()), state, 80, 24)
    assert 0 < frame.offset < 1000
    assert "until one of them is in use" in plain_text(frame.lines[-2])


def test_a_view_reports_how_many_lines_are_below() -> None:
    assert "more lines --" in screen(ScreenState("help"), 80, 12)


def test_a_node_that_vanishes_is_reported_in_its_detail() -> None:
    assert "node node-7 is gone" in screen(detail_of("node", "node-7"), 80, 24)


def test_a_node_and_a_pool_without_the_other_are_sentences() -> None:
    unreached = replace(superpod(), nodes=())
    of = picture(Overview({"node-1": NodeOverview("node-1", True)}, (unreached,)))
    assert "no devices of its own" in screen(ScreenState(), 80, 24, of)
    assert "reached by no node\n" in screen(detail_of("reach", "tpu.example.com/slice-0"), 80, 24, of)


def test_an_empty_cluster_is_a_message() -> None:
    assert "No devices." in screen(ScreenState(), 80, 24, picture(Overview({})))


def test_filters_without_a_match_name_the_key_that_removes_them() -> None:
    assert "Esc removes them" in screen(ScreenState(filter=ItemFilter(text="nothing")), 80, 24)


def test_a_message_of_the_cluster_cannot_control_the_terminal() -> None:
    change = RecentChange(NOW, "evil \x1b[2J\x07 text")
    shown = screen(ScreenState("changes"), 80, 24, picture(Overview({}, changes=(change,))))
    assert "evil ?[2J? text" in shown


def test_the_stale_picture_is_marked_before_everything_else() -> None:
    of = picture(cluster(), stale="no answer")
    for state in (ScreenState(), detail_of("node", "node-1"), ScreenState("help")):
        assert "NOT CURRENT" in screen(state, 80, 24, of).splitlines()[1]
