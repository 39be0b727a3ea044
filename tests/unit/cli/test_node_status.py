"""`dradriver node status` shows prepared claims, only from the state files."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

import dradriver as dra
from dradriver.cluster.folder import DataFolder
from dradriver.node.reporting.instance_file import InstanceReport
from dradriver.node.reporting.pool_file import FILE_NAME, KnownPool, write_pools
from dradriver.publish import PoolState, PoolStatus
from dradriver.testing import CrashPoint, Harness, ProcessDiedError

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
            harness.prepare(half, die_at=CrashPoint.PREPARE_RECORDED)
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


def test_each_pool_is_shown_with_the_last_status_of_its_publisher(dradriver: Command, tmp_path: Path) -> None:
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


def test_each_instance_has_its_readiness(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path):
        pass
    data_dir = tmp_path / "plugins" / Led.name
    sockets: list[socket.socket] = []
    for name, problem in (("dra-new", "the folder is not registered"), ("dra-old", ""), ("dra-killed", "")):
        path = data_dir / f"{name}.sock"
        if name != "dra-killed":
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].bind(str(path))
            sockets[-1].listen()
        (data_dir / f"{name}.instance.json").write_bytes(
            msgspec.json.encode(InstanceReport(str(path), problem, 1.0))
        )
    where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
    rows = json.loads(dradriver("node", "status", *where, "-o", "json").stdout)["instances"]
    for each in sockets:
        each.close()
    assert {(Path(each["socket"]).stem, each["state"], each["problem"]) for each in rows} == {
        ("dra-new", "not ready", "the folder is not registered"),
        ("dra-old", "ready", ""),
        ("dra-killed", "gone", "no process serves the socket"),
    }
    assert "not ready" not in dradriver("node", "status", *where).stdout
    assert dradriver("node", "status", *where).stdout.count("gone") == 3


def test_a_damaged_status_of_pools_hides_no_claim(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path) as harness:
        harness.prepare(harness.allocate(name="fine"))
    (tmp_path / "plugins" / Led.name / FILE_NAME).write_text("{")
    result = dradriver("node", "status", "--plugins-dir", str(tmp_path / "plugins"))
    assert "default/fine" in result.stdout
    assert "pool status" in result.stderr


def test_a_node_without_state_is_an_error_with_possible_causes(dradriver: Command, tmp_path: Path) -> None:
    result = dradriver("node", "status", "--plugins-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: no prepared state in {tmp_path}")


def claims_of(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    items: list[dict[str, object]] = json.loads(result.stdout)["items"]
    return items


def test_the_nodes_of_dradriver_up_are_found_with_their_cluster(
    dradriver: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    data = tmp_path / "dradriver"
    for node in ("node-1", "node-2"):
        with Harness(Led, data / "nodes" / node) as harness:
            harness.prepare(harness.allocate(name=f"claim-of-{node}"))
    rows = claims_of(dradriver("node", "status", "-o", "json"))
    assert {(each["cluster"], each["node"], each["name"], each["cdiSpecState"]) for each in rows} == {
        (str(data), "node-1", "claim-of-node-1", "present"),
        (str(data), "node-2", "claim-of-node-2", "present"),
    }
    shown = dradriver("node", "status").stdout
    assert f"node node-2 of the cluster in {data} (not running):" in shown
    elsewhere = tmp_path / "elsewhere"
    data.rename(elsewhere)
    assert dradriver("node", "status").exit_code == 1
    assert claims_of(dradriver("node", "status", "--data", str(elsewhere), "-o", "json"))
    folder = DataFolder(elsewhere)
    folder.lock()
    assert f"in {elsewhere} (running):" in dradriver("node", "status", "--data", str(elsewhere)).stdout
    folder.unlock()


def test_a_spec_in_an_unreadable_folder_is_not_absent(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path) as harness:
        harness.prepare(harness.allocate())
    where = ("node", "status", "--plugins-dir", str(tmp_path / "plugins"))
    assert [each["cdiSpecState"] for each in claims_of(dradriver(*where, "-o", "json"))] == ["present"]
    (tmp_path / "cdi").rename(tmp_path / "specs")
    assert [each["cdiSpecState"] for each in claims_of(dradriver(*where, "-o", "json"))] == ["not looked at"]
    assert "not looked at" in dradriver(*where).stdout
    there = claims_of(dradriver(*where, "--cdi-dir", str(tmp_path / "specs"), "-o", "json"))
    assert [each["cdiSpecState"] for each in there] == ["present"]
    (tmp_path / "empty").mkdir()
    gone = claims_of(dradriver(*where, "--cdi-dir", str(tmp_path / "empty"), "-o", "json"))
    assert [each["cdiSpecState"] for each in gone] == ["absent"]


def test_a_claim_that_adds_nothing_to_containers_needs_no_spec(dradriver: Command, tmp_path: Path) -> None:
    class Bare(Led):
        def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
            return {device: dra.ContainerEdits() for device in claim.devices}

    with Harness(Bare, tmp_path) as harness:
        harness.prepare(harness.allocate())
    rows = claims_of(dradriver("node", "status", "--plugins-dir", str(tmp_path / "plugins"), "-o", "json"))
    assert [each["cdiSpecState"] for each in rows] == ["not needed"]


def test_a_claim_of_a_controller_is_shown_without_its_handle(dradriver: Command, tmp_path: Path) -> None:
    with Harness(Led, tmp_path) as harness:
        harness.prepare(harness.allocate_blindly(("fabric/1", "port-0"), name="port", handle=b"s3cret"))
        where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
        answer = dradriver("node", "status", *where, "-o", "json")
        table = dradriver("node", "status", *where)
    (item,) = json.loads(answer.stdout)["items"]
    assert (item["devices"], item["state"]) == (["fabric/1/port-0"], "prepared")
    assert "fabric/1/port-0" in table.stdout
    assert not [text for text in (answer.stdout, table.stdout) if "s3cret" in text or "czNjcmV0" in text]
