"""The rules of `bitstreams.policy`: a table of requests, and of the messages for those that are refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dradriver as dra
from dradriver.testing import Harness
from dradriver_fpga import FpgaConfig
from dradriver_fpga.bitstreams import BitstreamError, PolicyRequest, require_allowed
from dradriver_fpga.configs import ConfigMapKey, RequestedBitstream
from dradriver_fpga.settings import read_settings
from tests.drivers.fpga.nodes import Node

ONE, OTHER = "ab" * 16, "cd" * 16
FILE = RequestedBitstream(file="a.gbs", sha256="0" * 64)
MAP = RequestedBitstream(config_map=ConfigMapKey(name="a", key="b"), sha256="0" * 64)
REQUEST = PolicyRequest("team-a", "pci-0000-3b-00-0-region-0", "region", ONE, "8086:09c4", FILE)
RULES: list[dict[str, Any]] = [
    {"namespaces": ["ops"], "types": ["region", "card", "management"]},
    {
        "namespaces": ["team-a", "team-b-*"],
        "cards": ["8086:09c4"],
        "interfaceIDs": ["ABABABAB-abab-abab-abab-abababababab"],
        "sources": ["file", "https://images.example.com/a/"],
    },
]


def url(path: str) -> RequestedBitstream:
    return RequestedBitstream(url=f"https://images.example.com{path}", sha256="0" * 64)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({}, ""),
        ({"namespace": "team-b-1"}, ""),
        ({"type": "slot"}, ""),
        ({"namespace": "ops", "type": "card", "interface_id": OTHER, "card": ":", "bitstream": MAP}, ""),
        ({"namespace": "ops", "type": "management", "bitstream": None}, ""),
        ({"bitstream": url("/a/b.gbs")}, ""),
        ({"bitstream": None}, ""),
        ({"namespace": "team-b"}, "no rule of bitstreams.policy has namespace team-b"),
        ({"type": "card"}, r"bitstreams.policy\[1\].types does not contain type card"),
        ({"type": "management"}, r"bitstreams.policy\[1\].types does not contain type management"),
        ({"card": "8086:bcce"}, r"bitstreams.policy\[1\].cards does not contain card 8086:bcce"),
        ({"interface_id": OTHER}, rf"bitstreams.policy\[1\].interfaceIDs does not contain interface {OTHER}"),
        ({"interface_id": ""}, r"interfaceIDs does not contain interface \(unknown\)"),
        ({"bitstream": MAP}, r"bitstreams.policy\[1\].sources does not contain the source of key b of Conf"),
        ({"bitstream": url("/b/a.gbs")}, r"sources does not contain the source of https://images.exampl"),
        ({"namespace": "ops", "type": "slot"}, r"bitstreams.policy\[0\].types does not contain type slot"),
    ],
)
def test_a_request_needs_a_rule_that_allows_all_of_it(change: dict[str, Any], refusal: str) -> None:
    rules = read_settings(json.dumps({"bitstreams": {"policy": RULES}})).bitstreams.policy
    request = replace(REQUEST, **change)
    if not refusal:
        require_allowed(request, rules)
        return
    with pytest.raises(BitstreamError, match=refusal) as told:
        require_allowed(request, rules)
    assert told.value.reason == "NotAllowed"
    assert f"device {request.device} is not allowed for claims of namespace {request.namespace}" in str(
        told.value
    )


def test_without_rules_everybody_may_program() -> None:
    require_allowed(replace(REQUEST, type="management"), ())


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"namespaces": []}, "namespaces"),
        ({"namespaces": ["a"], "types": ["regions"]}, "types"),
        ({"namespaces": ["a"], "cards": ["8086"]}, "cards"),
        ({"namespaces": ["a"], "interfaceIDs": [""]}, "interfaceIDs"),
        (
            {"namespaces": ["a"], "sources": ["folder"]},
            r"bitstreams\.policy\[0\]\.sources\[0\]: folder must begin",
        ),
        ({"namespaces": ["a"], "interfaces": [ONE]}, "interfaces"),
    ],
)
def test_a_wrong_rule_is_reported_at_the_start(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(dra.UsageError, match=message):
        read_settings(json.dumps({"bitstreams": {"policy": [rule]}}))


def with_policy(node: Node, namespace: str) -> Node:
    node.settings = {
        "managementDevices": True,
        "bitstreams": {
            "allowUnsigned": True,
            "policy": [{"namespaces": [namespace], "types": ["region", "management"]}],
        },
    }
    return node


@pytest.mark.parametrize("device", ["pci-0000-3b-00-0-region-0", "pci-0000-3b-00-0-management"])
@pytest.mark.parametrize("namespace", ["default", "ops"])
def test_the_driver_asks_the_policy(node: Node, tmp_path: Path, device: str, namespace: str) -> None:
    image = node.images.fitting("pac")
    wanted = RequestedBitstream(file=image.path.name, sha256=image.sha256)
    config = FpgaConfig(bitstream=None if "management" in device else wanted)
    with Harness(with_policy(node, namespace).driver, tmp_path / "h") as harness:
        claim = harness.allocate_blindly(("node-1", device), config=config)
        if namespace == "default":
            harness.prepare(claim)
            return
        with pytest.raises(
            dra.DraError, match=f"device {device} is not allowed for claims of namespace default"
        ):
            harness.prepare(claim)
    assert not node.programmed


def test_a_region_of_another_shell_needs_a_rule_even_without_a_bitstream(node: Node, tmp_path: Path) -> None:
    """Its claim makes the driver write a shell."""
    node.with_shells()
    node.settings |= with_policy(Node.__new__(Node), "ops").settings
    name = f"pci-0000-3b-00-0-region-0-{node.settings['shells'][1]['interfaceID'][:12]}"
    with Harness(node.driver, tmp_path / "h") as harness:
        claim = harness.allocate_blindly(("node-1", name))
        with pytest.raises(dra.DraError, match="is not allowed for claims of namespace default"):
            harness.prepare(claim)
    assert not node.programmed
