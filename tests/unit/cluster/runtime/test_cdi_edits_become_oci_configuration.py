"""CDI edits on an OCI configuration, with the host's device nodes given."""

from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError
from dradriver.cluster.runtime.cdi_apply import HostNode, apply_edits, host_node
from dradriver.cluster.runtime.cdi_specs import edits_for
from dradriver.cluster.runtime.oci import oci_config
from dradriver.model.cdi import ContainerEdits, DeviceNode, Hook, Mount

HOST = {"/dev/real": HostNode("b", 7, 3, 0o600, 0, 6)}


def applied(edits: ContainerEdits, **env: str) -> dict[str, Any]:
    spec = ContainerSpec(
        id="x", owner="o", folder=Path("/f"), log=Path("/f/log"), cdi_folder=Path("/c"), env=env
    )
    config = oci_config(spec)
    apply_edits(config, edits, HOST.__getitem__)
    return config


def test_variables_replace_those_of_the_pod() -> None:
    env = applied(ContainerEdits(env={"A": "cdi"}), A="pod", B="pod")["process"]["env"]
    assert [entry for entry in env if entry[0] in "AB"] == ["A=cdi", "B=pod"]


def test_a_device_node_takes_type_and_numbers_from_the_host() -> None:
    linux = applied(ContainerEdits(device_nodes=[DeviceNode("/dev/card", host_path="/dev/real")]))["linux"]
    [device] = linux["devices"]
    assert (device["path"], device["type"], device["major"], device["minor"]) == ("/dev/card", "b", 7, 3)
    assert linux["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "b", "major": 7, "minor": 3, "access": "rwm"},
    ]


def test_what_the_spec_says_wins_over_the_host() -> None:
    node = DeviceNode("/dev/x", type="c", major=1, minor=2, file_mode=0o640, permissions="r", uid=5, gid=6)
    linux = applied(ContainerEdits(device_nodes=[node]))["linux"]
    assert linux["devices"] == [
        {"path": "/dev/x", "type": "c", "major": 1, "minor": 2, "fileMode": 0o640, "uid": 5, "gid": 6}
    ]
    assert linux["resources"]["devices"][-1]["access"] == "r"


def test_the_same_path_twice_is_one_device() -> None:
    nodes = [DeviceNode("/dev/real"), DeviceNode("/dev/real", permissions="rw")]
    assert len(applied(ContainerEdits(device_nodes=nodes))["linux"]["devices"]) == 1


def test_mounts_hooks_and_groups_are_added() -> None:
    edits = ContainerEdits(
        mounts=[Mount("/host", "/inside", ["rbind"])],
        hooks=[Hook("prestart", "/bin/hook", timeout=3)],
        additional_gids=[5, 5, 0],
    )
    config = applied(edits)
    expected = {"destination": "/inside", "source": "/host", "options": ["rbind"]}
    assert expected in config["mounts"]
    assert config["hooks"]["prestart"] == [{"path": "/bin/hook", "timeout": 3}]
    assert config["process"]["user"]["additionalGids"] == [5]


def test_a_mount_replaces_the_one_at_its_path_and_outer_mounts_come_first() -> None:
    mounts = [Mount("/a", "/x/y", ["bind"]), Mount("/b", "/x", ["bind"]), Mount("/c", "/dev/shm", ["bind"])]
    found = [(each["destination"], each["source"]) for each in applied(ContainerEdits(mounts=mounts))["mounts"]]
    assert [source for destination, source in found if destination == "/dev/shm"] == ["/c"]
    assert found.index(("/x", "/b")) < found.index(("/x/y", "/a"))


def test_a_device_node_of_another_type_than_the_host_has_is_refused() -> None:
    with pytest.raises(ContainerStartError, match="is of type b, not c"):
        applied(ContainerEdits(device_nodes=[DeviceNode("/dev/real", type="c")]))


def test_a_device_node_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContainerStartError, match="missing"):
        host_node(str(tmp_path / "missing"))
    with pytest.raises(ContainerStartError, match="is not a device"):
        host_node(str(tmp_path))


def test_edits_of_the_spec_come_once_and_first(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "{cdiVersion: 0.3.0, kind: example.com/card, containerEdits: {env: [ALL=1]}, devices: ["
        "{name: one, containerEdits: {env: [ONE=1]}}, {name: two, containerEdits: {env: [TWO=1]}}]}"
    )
    edits = edits_for(tmp_path, ["example.com/card=two", "example.com/card=one", "example.com/card=two"])
    assert edits.env == ("ALL=1", "TWO=1", "ONE=1")


def test_a_broken_spec_hides_no_other_and_is_named_when_a_device_is_missing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "good.json").write_text(
        '{"cdiVersion": "0.3.0", "kind": "a.com/card", "devices": [{"name": "x", "containerEdits": {}}]}'
    )
    assert edits_for(tmp_path, ["a.com/card=x"]) == ContainerEdits()
    with pytest.raises(ContainerStartError, match=r"card=y is in no CDI spec of .*broken\.json"):
        edits_for(tmp_path, ["a.com/card=y"])
