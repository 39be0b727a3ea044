"""The embedded kubelet, its API server and a node."""

from tests.conformance.kubelet.embedded import api, client, lab, node_client

__all__ = ["api", "client", "lab", "node_client"]
