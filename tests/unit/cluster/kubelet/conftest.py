"""The embedded kubelet, its API server and a node."""

from tests.conformance.kubelet_embedded import api, client, lab, node_client

__all__ = ["api", "client", "lab", "node_client"]
