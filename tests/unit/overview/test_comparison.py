"""A comparison draws only the cards that change, before and after."""

from dradriver.overview.drawing.comparison import draw_comparison
from tests.unit.overview.objects import holding, mig_slices, overview


def test_only_cards_that_change_are_drawn_before_and_after() -> None:
    slices = (*mig_slices("node-1", 2), *mig_slices("node-2"))
    before = overview(*slices)
    after = overview(*slices, holding("train", "gpu-0-mig-3g-20gb-0"))
    drawn = draw_comparison(before, after, "Simulation", [("pod <a>", "node node-1")])
    assert drawn.count("<article>") == 2
    assert drawn.index(">before<") < drawn.index(">after<") < drawn.index("default/train")
    assert "1 of 2 nodes and shared pools without a change" in drawn
    assert "pod &lt;a&gt;" in drawn
    assert "gpu-1-counter-set" not in drawn
    assert "node node-2" not in drawn


def test_a_simulation_without_changes_says_so() -> None:
    shown = overview(*mig_slices())
    drawn = draw_comparison(shown, shown, "Simulation", [])
    assert "<article>" not in drawn
    assert "1 of 1 node or shared pool without a change" in drawn
