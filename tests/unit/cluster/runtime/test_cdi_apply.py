"""CDI edits applied to an OCI configuration, with given device nodes of the host."""

from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.runtime.base import ContainerSpec, ContainerStartError
from dradriver.cluster.runtime.cdi_apply import HostNode, apply_edits, read_host_node
from dradriver.cluster.runtime.oci import build_oci_config
from dradriver.model.cdi import ContainerEdits, DeviceNode, Hook, Mount

HOST = {"/dev/real": HostNode("b", 7, 3, 0o600, 0, 6)}


def apply(edits: ContainerEdits, **env: str) -> dict[str, Any]:
    spec = ContainerSpec(
        id="x", owner="o", folder=Path("/f"), log=Path("/f/log"), cdi_folder=Path("/c"), env=env
    )
    config = build_oci_config(spec)
    apply_edits(config, edits, HOST.__getitem__)
    return config


def test_variables_replace_those_of_the_pod() -> None:
    env = apply(ContainerEdits(env={"A": "cdi"}), A="pod", B="pod")["process"]["env"]
    assert [entry for entry in env if entry[0] in "AB"] == ["A=cdi", "B=pod"]


def test_a_device_node_takes_type_and_numbers_from_the_host() -> None:
    linux = apply(ContainerEdits(device_nodes=[DeviceNode("/dev/card", host_path="/dev/real")]))["linux"]
    [device] = linux["devices"]
    assert (device["path"], device["type"], device["major"], device["minor"]) == ("/dev/card", "b", 7, 3)
    assert linux["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "b", "major": 7, "minor": 3, "access": "rwm"},
    ]


def test_values_of_the_spec_override_the_host() -> None:
    node = DeviceNode("/dev/x", type="c", major=1, minor=2, file_mode=0o640, permissions="r", uid=5, gid=6)
    linux = apply(ContainerEdits(device_nodes=[node]))["linux"]
    assert linux["devices"] == [
        {"path": "/dev/x", "type": "c", "major": 1, "minor": 2, "fileMode": 0o640, "uid": 5, "gid": 6}
    ]
    assert linux["resources"]["devices"][-1]["access"] == "r"


def test_a_repeated_path_is_one_device() -> None:
    nodes = [DeviceNode("/dev/real"), DeviceNode("/dev/real", permissions="rw")]
    assert len(apply(ContainerEdits(device_nodes=nodes))["linux"]["devices"]) == 1


def test_mounts_hooks_and_groups_are_added() -> None:
    edits = ContainerEdits(
        mounts=[Mount("/host", "/inside", ["rbind"])],
        hooks=[Hook("prestart", "/bin/hook", timeout=3)],
        additional_gids=[5, 5, 0],
    )
    config = apply(edits)
    expected = {"destination": "/inside", "source": "/host", "options": ["rbind"]}
    assert expected in config["mounts"]
    assert config["hooks"]["prestart"] == [{"path": "/bin/hook", "timeout": 3}]
    assert config["process"]["user"]["additionalGids"] == [5]


def test_a_mount_replaces_the_one_at_its_path_and_outer_mounts_come_first() -> None:
    mounts = [Mount("/a", "/x/y", ["bind"]), Mount("/b", "/x", ["bind"]), Mount("/c", "/dev/shm", ["bind"])]
    found = [(each["destination"], each["source"]) for each in apply(ContainerEdits(mounts=mounts))["mounts"]]
    assert [source for destination, source in found if destination == "/dev/shm"] == ["/c"]
    assert found.index(("/x", "/b")) < found.index(("/x/y", "/a"))


def test_a_device_node_of_another_type_than_the_hosts_is_rejected() -> None:
    with pytest.raises(ContainerStartError, match="is of type b, not c"):
        apply(ContainerEdits(device_nodes=[DeviceNode("/dev/real", type="c")]))


def test_a_missing_device_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContainerStartError, match="missing"):
        read_host_node(str(tmp_path / "missing"))
    with pytest.raises(ContainerStartError, match="is not a device"):
        read_host_node(str(tmp_path))
