"""A stand-in for the kubelet, one for each node of the embedded cluster.

For drivers and their claims it behaves like the kubelet of Kubernetes 1.37 (`pkg/kubelet/cm/dra` and
`pkg/kubelet/pluginmanager`): registration, prepare and unprepare with the same order, time limits, retries and
errors, health, and clean-up of ResourceSlices. It also runs containers as far as a laptop and a test need: no
volumes, no probes, no pod network.

Law of this package: it shares no code with its counterpart `dradriver.node`. Decisions (`pod_plan`,
`pod_status`, `health`, `services`) are pure. Only `plugin` and `registration` use gRPC.

| module | contents |
|---|---|
| `kubelet` | the kubelet stand-in of one node: start, stop, logs |
| `node_object` | the Node object and its lease |
| `timings` | time limits and retry intervals |
| `plugins` | registered drivers: registration, connections, calls |
| `claims` | claims of the node: prepare, unprepare, checkpoint, health |
| `pods` | pods of the node: containers, status, logs |
"""

import os

# gRPC must not log to stderr when a driver goes away. Its C core reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from dradriver.cluster.kubelet.kubelet import Kubelet
from dradriver.cluster.kubelet.timings import Timings

__all__ = ["Kubelet", "Timings"]
