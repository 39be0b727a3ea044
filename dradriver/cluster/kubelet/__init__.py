"""A stand-in for the kubelet, one for each node of the embedded cluster.

It does for drivers and their claims what the kubelet of Kubernetes 1.37 does (`pkg/kubelet/cm/dra` and
`pkg/kubelet/pluginmanager`): registration, prepare and unprepare with the same order, time limits, retries and
errors, health, clean-up of ResourceSlices. It runs containers too, as far as a laptop and a test need: no
volumes, no probes, no pod network.

Law of this package: it shares no code with `dradriver.node`, whose counterpart it plays; decisions (`pod_plan`,
`pod_status`, `health`, `services`) are pure; gRPC is spoken in `plugin` and `registration` only.
"""

import os

# A driver that goes away is nothing to note on stderr; gRPC's C core reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from dradriver.cluster.kubelet.kubelet import Kubelet
from dradriver.cluster.kubelet.timings import Timings

__all__ = ["Kubelet", "Timings"]
