"""`dradriver node status` shows what is prepared, from the state files alone."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

import dradriver as dra
from dradriver.node.instance_file import Instance
from dradriver.node.pool_file import FILE_NAME, KnownPool, write_pools
from dradriver.publish import PoolState, PoolStatus
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


def test_each_pool_is_shown_with_what_the_publisher_last_said_of_it(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path):
        pass
    data_dir = tmp_path / "plugins" / Led.name
    refused = PoolStatus("bad", PoolState.REFUSED, message="devices[0].name: no label")
    held = PoolStatus("gpus", PoolState.HELD, 3, 1, 2, "a stays as it is", held_by=("default/mine",))
    write_pools(data_dir, [KnownPool(held, 1.0), KnownPool(refused, 2.0)])
    where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
    pools = json.loads(dradriver("node", "status", *where, "-o", "json").stdout)["pools"]
    assert [(pool["pool"], pool["state"]) for pool in pools] == [("bad", "refused"), ("gpus", "held")]
    assert pools[0]["problem"] == "devices[0].name: no label"
    assert (pools[1]["generation"], pools[1]["devices"], pools[1]["heldBy"]) == (3, 2, ["default/mine"])
    shown = dradriver("node", "status", *where).stdout
    assert "a stays as it is (held by default/mine)" in shown


def test_each_instance_says_whether_it_is_ready(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path):
        pass
    data_dir = tmp_path / "plugins" / Led.name
    sockets: list[socket.socket] = []
    for name, told in (("dra-new", "nobody looked into the folder"), ("dra-old", ""), ("dra-killed", "")):
        path = data_dir / f"{name}.sock"
        if name != "dra-killed":
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].bind(str(path))
            sockets[-1].listen()
        (data_dir / f"{name}.instance.json").write_bytes(msgspec.json.encode(Instance(str(path), told, 1.0)))
    where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
    found = json.loads(dradriver("node", "status", *where, "-o", "json").stdout)["instances"]
    for each in sockets:
        each.close()
    assert {(Path(each["socket"]).stem, each["state"], each["problem"]) for each in found} == {
        ("dra-new", "not ready", "nobody looked into the folder"),
        ("dra-old", "ready", ""),
        ("dra-killed", "gone", "no process serves its socket"),
    }
    assert "not ready" not in dradriver("node", "status", *where).stdout
    assert dradriver("node", "status", *where).stdout.count("gone") == 3


def test_a_damaged_status_of_pools_hides_no_claim(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path) as harness:
        harness.prepare(harness.allocate(name="fine"))
    (tmp_path / "plugins" / Led.name / FILE_NAME).write_text("{")
    result = dradriver("node", "status", "--plugins-dir", str(tmp_path / "plugins"))
    assert "default/fine" in result.stdout
    assert "status of the pools" in result.stderr


def test_a_node_without_state_says_what_may_be_wrong(dradriver: Command, tmp_path: Path) -> None:
    result = dradriver("node", "status", "--plugins-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: no prepared state in {tmp_path}")
