"""The embedded control plane: API server, controllers, scheduler and kubelet stand-ins in one process.

It is for laptops, tests and the demo, not for production. It implements only the parts of Kubernetes that bring
devices from a driver into a container. Law of this package: `cluster` assembles the parts. API server, control
plane and kubelet must not import each other, and must share data only through the API server. All state must be
in one folder.

| module | contents |
|---|---|
| `cluster` | `EmbeddedCluster`: starts and stops the parts in order |
| `folder` | the folder that contains all state of a cluster, and the lock of the folder |
| `clearing` | removes the state of a cluster that does not run |
| `apiserver` | the embedded API server |
| `kubelet` | the kubelet stand-in of a node |
| `runtime` | container runtimes: podman, runc, plain processes |
| `cel_check` | checks selectors for the API server with dradriver's CEL |
| `rules` | checks objects against the API server's rules, without a running server |
"""

from dradriver.cluster.cluster import EmbeddedCluster

__all__ = ["EmbeddedCluster"]
