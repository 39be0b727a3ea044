"""The fixture `cluster`: an embedded cluster of one node, for asynchronous tests."""

from dradriver.cluster import EmbeddedCluster
from dradriver.kube import NODES
from dradriver.model.core.workload import Node


async def test_the_cluster_has_one_node_and_an_api_server(cluster: EmbeddedCluster) -> None:
    nodes = (await cluster.client().list(NODES, into=Node)).items
    assert [node.metadata.name for node in nodes] == ["node-1"]
    assert "plain processes" in cluster.runtime
