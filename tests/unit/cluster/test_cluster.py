"""Start, stop and state of an embedded cluster."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from dradriver.cluster import EmbeddedCluster
from dradriver.cluster.kubelet.pods.pods import PodManager
from dradriver.errors import UsageError
from dradriver.kube import CLAIMS, NODES, PODS, Client, Forbidden, Invalid
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.ports import reserve_port


async def test_a_second_cluster_in_the_same_folder_is_rejected(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0):
        with pytest.raises(UsageError, match=r"another cluster runs in it \(process \d+\)"):
            await EmbeddedCluster(tmp_path, nodes=0).start()
    async with EmbeddedCluster(tmp_path, nodes=0):
        pass


async def test_objects_address_and_credentials_survive_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0, port=reserve_port()) as first:
        await first.client().create(CLAIMS, builders.claim(), "default", into=dict)
        url, kubeconfig = first.url, first.kubeconfig_path.read_text()
    async with EmbeddedCluster(tmp_path, nodes=0) as second:
        assert (second.url, second.kubeconfig_path.read_text()) == (url, kubeconfig)
        claims = await second.client().list(CLAIMS, into=ResourceClaim)
        assert [claim.ref for claim in claims.items] == ["default/claim-1"]


async def test_every_node_has_folders_and_a_driver_identity(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=2, runtime="process") as cluster:
        assert cluster.nodes == ("node-1", "node-2")
        nodes = await cluster.client().list(NODES, into=Node)
        assert {node.metadata.name for node in nodes.items} == set(cluster.nodes)
        for name in cluster.nodes:
            folders = {path.name for path in cluster.node_dir(name).iterdir() if path.is_dir()}
            assert {"plugins", "plugins_registry", "cdi"} <= folders
        async with await Client.connect(str(cluster.node_kubeconfig("node-1"))) as driver:
            claim = await cluster.client().create(CLAIMS, builders.claim(), "default", into=ResourceClaim)
            assert (await driver.get(CLAIMS, "claim-1", "default", into=ResourceClaim)) == claim
            with pytest.raises(Forbidden):
                await driver.delete(NODES, "node-2")


@pytest.mark.parametrize(
    ("nodes", "names"), [("node-1", ("node-1",)), (["a", "b"], ("a", "b")), (2, ("node-1", "node-2")), (0, ())]
)
def test_nodes_are_a_name_names_or_a_number(
    tmp_path: Path, nodes: int | str | Sequence[str], names: tuple[str, ...]
) -> None:
    assert EmbeddedCluster(tmp_path, nodes=nodes).nodes == names


async def test_a_selector_that_does_not_compile_is_rejected_on_write(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0) as cluster:
        wrong = builders.claim(builders.device_request(builders.CLASS, "device.drivr == 'x'"))
        with pytest.raises(Invalid, match="drivr"):
            await cluster.client().create(CLAIMS, wrong, "default", into=dict)


@pytest.mark.parametrize(
    "gates", [{"DRANonsense": True}, {"DRADeviceTaints": False, "DRADeviceTaintRules": True}]
)
def test_invalid_feature_gates_are_rejected(tmp_path: Path, gates: dict[str, bool]) -> None:
    with pytest.raises(UsageError, match="DRA"):
        EmbeddedCluster(tmp_path, feature_gates=gates)


async def test_a_runtime_that_does_not_exist_leaves_nothing_running(tmp_path: Path) -> None:
    failed = EmbeddedCluster(tmp_path, runtime="docker")
    with pytest.raises(UsageError, match="runtime 'docker' is unknown"):
        await failed.start()
    with pytest.raises(UsageError, match="has not been started"):
        failed.client()
    async with EmbeddedCluster(tmp_path, nodes=0):
        pass


async def test_a_client_exists_only_while_the_cluster_runs(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, nodes=0)
    with pytest.raises(UsageError, match="has not been started"):
        cluster.client()
    async with cluster:
        assert (await cluster.client().list(PODS, into=Pod)).items == []
    await cluster.stop()


async def test_liveness_names_a_failed_task_of_a_kubelet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: PodManager) -> None:
        raise RuntimeError("a defect")

    async with EmbeddedCluster(tmp_path, runtime="process") as cluster:
        assert await cluster.liveness() == ""
    monkeypatch.setattr(PodManager, "run", fail)
    async with EmbeddedCluster(tmp_path, runtime="process") as cluster:
        await asyncio.sleep(0)
        assert await cluster.liveness() == "kubelet node-1: pods: RuntimeError('a defect')"
