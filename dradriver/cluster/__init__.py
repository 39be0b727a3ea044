"""The embedded control plane: API server, controllers, scheduler and kubelet stand-ins in one process.

For laptops, tests and the demo, not for production: it is as much of Kubernetes as devices need to get from a
driver into a container, and says so. Law of this package: `cluster` puts the parts together and none of them
knows another; whatever has to agree between them stands in the API server. All state is in one folder.
"""

from dradriver.cluster.cluster import EmbeddedCluster

__all__ = ["EmbeddedCluster"]
