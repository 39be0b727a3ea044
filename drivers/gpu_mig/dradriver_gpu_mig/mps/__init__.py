"""MPS for claims: one control daemon (nvidia-cuda-mps-control) for each claim that requests MPS.

Law of this package: a daemon belongs to the node and not to this process, so a restart of the driver's pod
never ends it. The record of a daemon must be on disk before the first change on the node, and must be deleted
only after the last change is reverted. The containers of a claim get the pipe folder and the shared memory of
that claim only.

- `daemons`: `MpsDaemons`, which executes the steps.
- `steps`: the table from which the next step is read.
- `daemon`: the record, which has what is needed to start a daemon again.
- `daemon_store`: the records on disk.
- `host`: `MpsHost`, the interface to the processes of the node, and the folders of a claim.
- `node_processes`: `NodeMpsHost`, the real processes.
- `node_view`: the node's files, mounts and programs, as the driver's pod reaches them.
- `cgroups`: which processes belong to a daemon.
- `enter`: runs a program in the namespaces of the node.
- `simulator`: `SimulatedMpsHost`, which starts no process.
- `edits`: the container edits.
"""

from dradriver_gpu_mig.mps.daemon import DaemonState, MpsDaemon
from dradriver_gpu_mig.mps.daemon_store import MpsDaemonStore
from dradriver_gpu_mig.mps.daemons import MpsDaemons
from dradriver_gpu_mig.mps.edits import make_mps_edits
from dradriver_gpu_mig.mps.host import MpsFolders, MpsHost
from dradriver_gpu_mig.mps.node_processes import NodeMpsHost
from dradriver_gpu_mig.mps.simulator import SimulatedMpsHost

__all__ = [
    "DaemonState",
    "MpsDaemon",
    "MpsDaemonStore",
    "MpsDaemons",
    "MpsFolders",
    "MpsHost",
    "NodeMpsHost",
    "SimulatedMpsHost",
    "make_mps_edits",
]
