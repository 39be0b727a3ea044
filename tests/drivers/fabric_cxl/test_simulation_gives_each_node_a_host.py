"""Simulated nodes take the hosts of a simulated fabric, in any process."""

from pathlib import Path

import pytest

import dradriver as dra
from dradriver_fabric_cxl.fabric.simulator import SimulatedFabric
from dradriver_fabric_cxl.simulation import claim_simulated_host, open_fabric_store


def test_each_node_takes_a_host_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    first, second = (claim_simulated_host(tmp_path, node) for node in ("node-a", "node-b"))
    assert first != second
    assert claim_simulated_host(tmp_path, "node-a") == first


def test_a_configured_host_is_left_for_its_node(tmp_path: Path) -> None:
    hosts = {"host-0": "node-b"}
    assert claim_simulated_host(tmp_path, "node-a", hosts).id != "host-0"
    assert claim_simulated_host(tmp_path, "node-b", hosts).id == "host-0"


def test_a_configured_host_that_another_node_has_is_refused(tmp_path: Path) -> None:
    host = claim_simulated_host(tmp_path, "node-a").id
    with pytest.raises(dra.DraError, match="node node-a has it already"):
        claim_simulated_host(tmp_path, "node-b", {host: "node-b"})


def test_a_configured_host_must_exist(tmp_path: Path) -> None:
    with pytest.raises(dra.DraError, match="no such host"):
        claim_simulated_host(tmp_path, "node-a", {"host-99": "node-a"})
    assert claim_simulated_host(tmp_path, "node-a").id == "host-0"


async def test_more_nodes_than_hosts_add_hosts_to_the_fabric(tmp_path: Path) -> None:
    claimed = [claim_simulated_host(tmp_path, f"node-{n}") for n in range(6)]
    known = (await SimulatedFabric(open_fabric_store(tmp_path)).inventory()).hosts
    assert set(claimed) == set(known)
    assert len({each.system for each in known}) == len(known)


def test_a_node_leaves_its_host_when_the_settings_name_another_one(tmp_path: Path) -> None:
    first = claim_simulated_host(tmp_path, "node-a").id
    assert claim_simulated_host(tmp_path, "node-a", {"host-2": "node-a"}).id == "host-2"
    assert claim_simulated_host(tmp_path, "node-a").id == "host-2"
    assert claim_simulated_host(tmp_path, "node-b").id == first


def test_a_process_that_dies_before_its_host_is_recorded_leaves_the_host_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        claim_simulated_host(tmp_path, f"node-{n}")
    replace = Path.replace

    def die(path: Path, target: Path) -> Path:
        if target.name == "hosts.json":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            claim_simulated_host(tmp_path, "node-4")
    assert claim_simulated_host(tmp_path, "node-5").id == "host-4"
