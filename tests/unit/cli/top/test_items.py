"""Items are ordered and filtered, and only changed items are computed again."""

from dataclasses import replace

import pytest

from dradriver.cli.top.items import ItemFilter, ItemIndex, ItemKey
from dradriver.overview.values import NodeOverview, Overview, PoolProblem
from tests.unit.cli.top.pictures import GPU, cluster, mig_card


def index_of(overview: Overview) -> ItemIndex:
    index = ItemIndex()
    index.apply(overview)
    return index


def names(index: ItemIndex, wanted: ItemFilter) -> list[str]:
    return [key.name for key in index.shown(wanted)]


FABRIC, POD = "cxl.example.com/fabric", "tpu.example.com/slice-0"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ItemFilter("name"), [FABRIC, POD, "node-1", "node-2", "node-10"]),
        (ItemFilter("used"), ["node-1", POD, "node-2", FABRIC, "node-10"]),
        (ItemFilter("free"), [FABRIC, "node-2", "node-1", "node-10", POD]),
        (ItemFilter("problems"), ["node-2", "node-10", FABRIC, "node-1", POD]),
        (ItemFilter(text="zone=b"), ["node-2", "node-10"]),
        (ItemFilter(text="FILTER-pod zone"), ["node-2"]),
        (ItemFilter(text="a100"), ["node-1", "node-2"]),
        (ItemFilter(text="host-7"), [POD]),
        (ItemFilter(driver=GPU), ["node-1", "node-2", "node-10"]),
        (ItemFilter(driver=GPU, only_problems=True, text="node-2"), ["node-2"]),
        (ItemFilter(text="nothing"), []),
    ],
)
def test_items_are_ordered_and_filtered(wanted: ItemFilter, expected: list[str]) -> None:
    assert names(index_of(cluster()), wanted) == expected


def test_only_free_leaves_out_full_nodes() -> None:
    full = NodeOverview("full", True, (replace(mig_card(), fitting=()),))
    index = index_of(Overview({"full": full, "free": NodeOverview("free", True, (mig_card(),))}))
    assert names(index, ItemFilter(only_free=True)) == ["free"]


def test_the_drivers_are_listed_in_order() -> None:
    expected = ["cxl.example.com", "fpga.example.com", GPU, "tpu.example.com"]
    assert list(index_of(cluster()).drivers) == expected


def test_a_changed_node_is_computed_again() -> None:
    nodes = {"a": NodeOverview("a", True), "b": NodeOverview("b", True)}
    index = index_of(Overview(nodes))
    before = index.get(ItemKey("node", "b"))
    nodes["a"] = NodeOverview("a", False)
    index.apply(Overview(nodes), ["a"], problems_changed=False)
    assert names(index, ItemFilter(only_problems=True)) == ["a"]
    assert index.get(ItemKey("node", "b")) is before


def test_a_removed_node_is_gone() -> None:
    index = index_of(Overview({"a": NodeOverview("a", True)}))
    index.apply(Overview({}), ["a"])
    assert names(index, ItemFilter()) == []


def test_a_removed_reach_is_gone() -> None:
    index = index_of(cluster())
    index.apply(replace(cluster(), reaches=()), [])
    assert names(index, ItemFilter()) == ["node-1", "node-2", "node-10"]


def test_a_broken_pool_is_a_problem_of_its_node_until_it_is_repaired() -> None:
    nodes = {"a": NodeOverview("a", True)}
    index = index_of(Overview(nodes))
    index.apply(Overview(nodes, problems=(PoolProblem(GPU, "a", "a", "incomplete"),)), [])
    assert names(index, ItemFilter(only_problems=True)) == ["a"]
    index.apply(Overview(nodes), [])
    assert names(index, ItemFilter(only_problems=True)) == []


def test_the_share_in_use_is_the_mean_of_the_first_lanes() -> None:
    item = index_of(cluster()).get(ItemKey("node", "node-2"))
    assert item is not None
    assert item.used == pytest.approx((0.25 + 0.625) / 2)
