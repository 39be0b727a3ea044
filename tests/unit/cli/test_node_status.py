"""`dradriver node status` shows what is prepared, from the state files alone."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import Result

import dradriver as dra
from dradriver.testing import Harness, ProcessDiedError, Step

Command = Callable[..., Result]


class Led(dra.Driver):
    name = "led.example.com"

    def discover(self) -> list[dra.Device]:
        return [dra.Device("led-0"), dra.Device("led-1")]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: dra.ContainerEdits(env={"LED": device.name}) for device in claim.devices}


def test_each_claim_is_shown_with_its_devices_and_its_spec(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path) as harness:
        fine, half = (harness.allocate(name=name) for name in ("fine", "half"))
        harness.prepare(fine)
        with pytest.raises(ProcessDiedError):
            harness.prepare(half, die_at=Step.PREPARE_RECORDED)
        where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
        answer = dradriver("node", "status", *where, "-o", "json")
        table = dradriver("node", "status", *where)
    items = {item["name"]: item for item in json.loads(answer.stdout)["items"]}
    assert items["fine"]["devices"] == ["node-1/led-0"]
    assert items["fine"]["state"] == "prepared"
    assert fine.metadata.uid in items["fine"]["cdiSpec"]
    assert (items["half"]["state"], items["half"]["cdiSpec"]) == ("preparing", None)
    assert "default/fine" in table.stdout
    assert table.stdout.count("\n") == 3


def test_a_node_without_state_says_what_may_be_wrong(dradriver: Command, tmp_path: Path) -> None:
    result = dradriver("node", "status", "--plugins-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: no prepared state in {tmp_path}")
