"""The API server of the embedded control plane, with the part of Kubernetes' API that a laptop and a test need.

It is not a Kubernetes and not for production: one process, one SQLite file, no admission webhooks, and no RBAC
except the rules that keep one node from writing another node's slices. For the API that it serves, real clients
(kubectl, client-go, the Python client) can't distinguish it from a kube-apiserver 1.37;
`tests/conformance/apiserver_suite.py` defines that.

Law: the server shares no code with the clients that it checks. Nothing here imports `dradriver.model`,
`dradriver.kube`, `dradriver.allocator` or `dradriver.cel`; the caller passes in a CEL check. No kind is special
outside `kinds/resources.py`, `strategies/`, `validation/` and `requests/tables.py`.

| module | contents |
|---|---|
| `server` | start and stop: credentials, state, socket, tasks |
| `backend` | the parts that every handler and controller works with |
| `status` | the errors that the server answers |
| `faults` | faults that tests inject |
| `access` | authentication and authorization |
| `requests` | HTTP requests: parse, read, write, encode |
| `storage` | objects in memory and on disk, watches, garbage collection |
| `kinds` | the served kinds, feature gates, discovery, OpenAPI |
| `schema` | the field types of each kind |
| `fields` | server-side apply and the ownership of fields |
| `formats` | JSON, YAML and quantities as Go reads and writes them |
| `strategies` | defaults and immutable fields of each kind |
| `validation` | the rules of each kind |
| `quota` | ResourceQuota |
"""

from dradriver.cluster.apiserver.faults import Fault, Faults
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.server import ApiServer, PodLogs

__all__ = ["ApiServer", "Fault", "Faults", "FeatureGates", "PodLogs"]
