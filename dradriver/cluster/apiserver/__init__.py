"""The API server of the embedded control plane: as much of Kubernetes' API as a laptop and a test need.

It is not a Kubernetes and never serves production: one process, one SQLite file, no admission
webhooks, no RBAC beyond what keeps one node from writing another node's slices. What it does
serve, real clients (kubectl, client-go, the Python client) can't tell from a kube-apiserver 1.37;
`tests/conformance/apiserver_suite.py` says what that means.

Law: the server shares no code with the clients that it checks. Nothing here imports
`dradriver.model`, `dradriver.kube`, `dradriver.allocator` or `dradriver.cel`; a CEL check is
handed in by the caller. No kind is special outside `resources.py`, `strategies/`, `validation/`
and `tables.py`.
"""

from dradriver.cluster.apiserver.faults import Fault, Faults
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.server import ApiServer, PodLogs

__all__ = ["ApiServer", "Fault", "Faults", "FeatureGates", "PodLogs"]
