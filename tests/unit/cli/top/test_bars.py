"""Lanes are drawn to scale, with one mark for each device."""

from dradriver.cli.top.bars import bar_width, draw_lane, holder_style, main_lanes, mark_devices
from dradriver.cli.top.spans import plain_text
from dradriver.overview.values import Card, CardDevice, Lane, Segment


def drawn(width: int, *segments: Segment, cells: int = 0) -> str:
    lane = Lane("memory", cells, "8", "?", segments)
    count = max((segment.device for segment in segments), default=-1) + 1
    card = Card("d", "p", "c", (lane,), tuple(CardDevice(f"dev-{at}", (f"ns/c{at}",)) for at in range(count)))
    return plain_text(draw_lane(card, lane, mark_devices(card), width))


def test_a_free_lane_has_only_free_places() -> None:
    assert drawn(8) == "........"


def test_cells_are_drawn_one_by_one() -> None:
    assert drawn(8, Segment(0, 0, 3 / 8), Segment(1, 7 / 8, 1), cells=8) == "AAA....B"


def test_cells_are_enlarged_evenly() -> None:
    assert drawn(6, Segment(0, 1 / 3, 2 / 3), cells=3) == "..AA.."


def test_a_segment_that_is_smaller_than_a_character_is_visible() -> None:
    assert drawn(8, Segment(0, 0.5, 0.501)) == "....A..."
    assert drawn(8, Segment(0, 0.999, 1.0)) == ".......A"


def test_neighbors_that_share_a_character_keep_the_larger_part() -> None:
    assert drawn(4, Segment(0, 0, 0.45), Segment(1, 0.45, 1)) == "AABB"


def test_a_device_without_a_character_of_its_own_is_shown_as_several() -> None:
    assert drawn(4, Segment(0, 0, 0.5), Segment(1, 0.5, 0.55), Segment(2, 0.55, 0.6)) == "AA+."


def test_overlapping_parts_are_overdrawn() -> None:
    assert drawn(4, Segment(0, 0, 0.75), Segment(1, 0.5, 1)) == "AA!B"


def test_devices_after_the_52nd_share_a_mark() -> None:
    parts = [Segment(at, at / 60, (at + 1) / 60) for at in range(60)]
    assert drawn(60, *parts, cells=60).endswith("xyz########")


def test_marks_follow_the_order_of_the_drawing_and_skip_devices_that_are_not_in_use() -> None:
    lane = Lane("cells", 4, "4", "2", (Segment(2, 0, 0.25), Segment(0, 0.5, 0.75)))
    listed = (CardDevice("a", ("x/1",)), CardDevice("b", taints=("t",)), CardDevice("c", ("x/2",)))
    assert mark_devices(Card("d", "p", "c", (lane,), listed)) == {2: "A", 0: "B"}


def test_a_claim_has_one_style_on_all_cards() -> None:
    assert holder_style(CardDevice("a", ("x/1",))) == holder_style(CardDevice("b", ("x/1",)))
    assert holder_style(CardDevice("a")) == ""


def test_a_bar_is_a_multiple_of_its_cells() -> None:
    assert [bar_width(Lane("x", cells, "", ""), 30) for cells in (0, 1, 7, 8, 31)] == [30, 30, 28, 24, 30]


def test_lanes_whose_names_differ_only_in_numbers_represent_a_card_together() -> None:
    names = ("tpus-node-1", "memory", "tpus-node-2", "tpu")
    card = Card("d", "p", "c", tuple(Lane(name, 0, "4", "0") for name in names))
    assert [lane.name for lane in main_lanes(card)] == ["tpus-node-1", "tpus-node-2"]
    assert main_lanes(Card("d", "p", "c", ())) == ()


def test_lanes_of_hosts_without_numbers_represent_a_card_together() -> None:
    lanes = [
        Lane(name, 0, "4", "0") for name in ("tpus-alpha", "tpus-beta", "links-beta", "gamma-tpus", "tpus")
    ]
    card = Card("d", "p", "c", (*lanes, Lane("tpus-memory", 0, "64Gi", "0")))
    assert [lane.name for lane in main_lanes(card)] == ["tpus-alpha", "tpus-beta"]
    suffix = Card("d", "p", "c", (Lane("alpha-tpus", 0, "4", "0"), lanes[3], lanes[2]))
    assert [lane.name for lane in main_lanes(suffix)] == ["alpha-tpus", "gamma-tpus"]
