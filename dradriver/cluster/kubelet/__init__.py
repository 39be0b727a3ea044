"""A stand-in for the kubelet, one for each node of the embedded cluster.

For drivers and their claims, it behaves like the kubelet of Kubernetes 1.37 (`pkg/kubelet/cm/dra` and
`pkg/kubelet/pluginmanager`). This applies to registration, health, the clean-up of ResourceSlices, and to the
order, time limits, retries and errors of prepare and unprepare. It also runs containers, but without volumes,
probes or a pod network.

Law of this package: it must not share code with its counterpart `dradriver.node`. Code that makes decisions
(`pod_plan`, `pod_status`, `health`, `services`) must be pure. Only `plugin` and `registration` may use gRPC.

| module | contents |
|---|---|
| `kubelet` | the kubelet stand-in of one node: start, stop, logs |
| `node_object` | the Node object and its lease |
| `timings` | time limits and retry intervals |
| `plugins` | registered drivers: registration, connections, calls |
| `claims` | the claims of the node: prepare, unprepare, checkpoint, health |
| `pods` | pods of the node: containers, status, logs |
"""

import os

# gRPC must not log to stderr when a driver disconnects. The C core of gRPC reads this variable when it is
# loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from dradriver.cluster.kubelet.kubelet import Kubelet
from dradriver.cluster.kubelet.timings import Timings

__all__ = ["Kubelet", "Timings"]
