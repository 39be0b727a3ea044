"""The optional resource: claims get a card if there is one, and nothing otherwise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.testing import ControllerContract, ControllerHarness, DriverContract, Harness
from examples.classic.optional.controller import CardClaim, CardController
from examples.classic.optional.node import CardDriver

CARDS = {"node-1": ["card-0", "card-1"], "node-2": ["card-0"], "node-3": []}
NODES = tuple(CARDS)
OPTIONAL = CardClaim(optional=True)


class TestControllerContract(ControllerContract):
    @pytest.fixture(autouse=True)
    def record(self, tmp_path: Path) -> None:
        self.path = tmp_path / "cards.json"

    def make_driver(self) -> CardController:
        return CardController(CARDS, self.path)


class TestNodeContract(DriverContract):
    driver_class = CardDriver
    controller_devices = (("card.example.com/node-1", "card-0"), ("card.example.com/node-1", "card-1"))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerHarness]:
    with ControllerHarness(lambda: CardController(CARDS, tmp_path / "cards.json")) as harness:
        yield harness


def test_nodes_without_a_card_are_unsuitable_only_while_others_have_one(controller: ControllerHarness) -> None:
    wanted = controller.claim(claim_config=OPTIONAL)
    assert controller.unsuitable_nodes(wanted, nodes=NODES) == {wanted.uid: ["node-3"]}
    for node in ("node-1", "node-1", "node-2"):
        controller.allocate(controller.claim(), node=node)
    assert controller.unsuitable_nodes(wanted, nodes=NODES) == {wanted.uid: []}


def test_nodes_that_the_scheduler_does_not_list_do_not_count(controller: ControllerHarness) -> None:
    wanted = controller.claim(claim_config=OPTIONAL)
    assert controller.unsuitable_nodes(wanted, nodes=["node-3"]) == {wanted.uid: []}


def test_a_required_card_is_never_left_out(controller: ControllerHarness) -> None:
    wanted = controller.claim()
    assert controller.unsuitable_nodes(wanted, nodes=["node-3"]) == {wanted.uid: ["node-3"]}
    with pytest.raises(
        dra.AllocationError, match="node node-3 has too few free cards for claim default/claim-1"
    ):
        controller.allocate(wanted, node="node-3")


def test_an_optional_claim_takes_a_card_if_there_is_one(controller: ControllerHarness) -> None:
    wanted = controller.claim(claim_config=OPTIONAL)
    (device,) = controller.allocate(wanted, node="node-2")[wanted.uid].devices
    assert (device.pool, device.name) == ("card.example.com/node-2", "card-0")


def test_the_allocation_without_a_card_is_empty_and_stays_so(controller: ControllerHarness) -> None:
    for node in ("node-1", "node-1", "node-2"):
        controller.allocate(controller.claim(), node=node)
    wanted = controller.claim(claim_config=OPTIONAL)
    result = controller.allocate(wanted, node="node-3")[wanted.uid]
    assert (result.devices, result.on_any_node) == ((), True)
    assert controller.allocate(wanted, node="node-1")[wanted.uid] == result
    assert wanted.uid in (controller.allocations() or ())


def test_a_node_without_a_card_that_was_selected_at_once_is_tried_last(controller: ControllerHarness) -> None:
    wanted = controller.claim(claim_config=OPTIONAL)
    with pytest.raises(
        dra.AllocationError, match=r"node node-3 has too few free .*, but node node-1 has enough"
    ):
        controller.allocate(wanted, node="node-3")
    assert controller.unsuitable_nodes(wanted, nodes=NODES) == {wanted.uid: ["node-3"]}
    assert controller.allocate(wanted, node="node-3")[wanted.uid].devices == ()


def test_a_required_claim_of_the_pod_comes_before_an_optional_one(controller: ControllerHarness) -> None:
    optional, required = controller.claim(claim_config=OPTIONAL), controller.claim()
    assert controller.unsuitable_nodes(optional, required, nodes=["node-2", "node-3"])[required.uid] == [
        "node-3"
    ]
    results = controller.allocate(optional, required, node="node-2")
    assert [len(results[each.uid].devices) for each in (optional, required)] == [0, 1]


def test_an_immediate_claim_gets_a_card_of_the_node_with_the_most(controller: ControllerHarness) -> None:
    wanted = controller.claim()
    result = controller.allocate(wanted, node=None)[wanted.uid]
    assert result.node_selector == dra.NodeSelector.for_node("node-1")


def test_the_container_learns_by_a_variable_which_card_it_has() -> None:
    with Harness(CardDriver) as harness:
        edits = harness.prepare(harness.allocate_blindly(("card.example.com/node-1", "card-0"))).edits
    assert edits.env == ("CARD_CARD_0=/dev/card-0",)
    assert [node.path for node in edits.device_nodes] == ["/dev/card-0"]
