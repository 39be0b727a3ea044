"""The combined allocation: one claim, two kubelet plugins, a handle for each."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.testing import ControllerContract, ControllerHarness, DriverContract, Harness
from examples.classic.combined.controller import FPGA, NIC, CardFunctions, PipelineClaim, PipelineController
from examples.classic.combined.node import FpgaDriver, NicDriver

CARDS = {
    "node-1": {
        "card-0": CardFunctions(blocks=2, ports=("eth1", "eth2")),
        "card-1": CardFunctions(1, ("eth3",)),
    },
    "node-2": {"card-0": CardFunctions(blocks=2, ports=("eth1",))},
}
CONFIG = PipelineClaim(image="router", vlan=7)
POOL = "pipeline.example.com/node-1"


class TestControllerContract(ControllerContract):
    claim_config = CONFIG

    @pytest.fixture(autouse=True)
    def record(self, tmp_path: Path) -> None:
        self.path = tmp_path / "pipelines.json"

    def make_driver(self) -> PipelineController:
        return PipelineController(CARDS, self.path)


class TestFpgaContract(DriverContract):
    driver_class = FpgaDriver
    controller_devices = ((POOL, "card-0-block-0"), (POOL, "card-0-block-1"))

    def make_handle(self, devices: Sequence[tuple[str, str]]) -> bytes:
        return json.dumps({"block": devices[0][1], "image": "router"}).encode()


class TestNicContract(DriverContract):
    driver_class = NicDriver
    controller_devices = ((POOL, "card-0-eth1"), (POOL, "card-0-eth2"))

    def make_handle(self, devices: Sequence[tuple[str, str]]) -> bytes:
        return json.dumps({"port": devices[0][1], "vlan": 7}).encode()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerHarness]:
    with ControllerHarness(lambda: PipelineController(CARDS, tmp_path / "pipelines.json")) as harness:
        yield harness


def test_a_claim_gets_a_block_and_a_port_of_one_card(controller: ControllerHarness) -> None:
    claim = controller.claim(claim_config=CONFIG)
    result = controller.allocate(claim, node="node-1")[claim.uid]
    assert [(each.request, each.driver, each.name) for each in result.devices] == [
        ("request", FPGA, "card-0-block-0"),
        ("request", NIC, "card-0-eth1"),
    ]
    assert {driver: json.loads(data) for driver, data in result.handles.items()} == {
        FPGA: {"block": "block-0", "image": "router"},
        NIC: {"port": "eth1", "vlan": 7},
    }


def test_a_node_is_unsuitable_when_its_cards_lack_one_of_the_two(controller: ControllerHarness) -> None:
    first, second = (controller.claim(claim_config=CONFIG) for _ in range(2))
    controller.allocate(first, node="node-2")
    assert controller.unsuitable_nodes(second, nodes=list(CARDS)) == {second.uid: ["node-2"]}
    with pytest.raises(dra.AllocationError, match="no card of node-2 has both a free block and a free port"):
        controller.allocate(second, node="node-2")


def test_a_claim_without_an_image_is_refused(controller: ControllerHarness) -> None:
    with pytest.raises(
        dra.AllocationError, match="claim default/claim-1: parameters: must have a PipelineClaim"
    ):
        controller.claim()


@pytest.mark.parametrize(
    ("driver", "handle", "env"),
    [
        (FpgaDriver, {"block": "block-0", "image": "router"}, ("FPGA_BLOCK=block-0", "FPGA_IMAGE=router")),
        (NicDriver, {"port": "eth1", "vlan": 7}, ("NIC_PORT=eth1", "NIC_VLAN=7")),
    ],
)
def test_each_plugin_prepares_its_function_from_its_own_handle(
    driver: type[dra.Driver], handle: dict[str, object], env: tuple[str, ...]
) -> None:
    with Harness(driver) as harness:
        claim = harness.allocate_blindly((POOL, "card-0"), handle=json.dumps(handle).encode())
        assert harness.prepare(claim).edits.env == env
