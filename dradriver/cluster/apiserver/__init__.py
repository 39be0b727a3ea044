"""The API server of the embedded control plane, with the part of Kubernetes' API that a laptop and a test need.

It is not a full Kubernetes API server and not for production. It has one process, one SQLite file, no admission
webhooks, and no RBAC except the rules that prevent a node from writing another node's slices. For the API that
it serves, real clients (kubectl, client-go, the Python client) can't distinguish it from a kube-apiserver 1.37.
`tests/conformance/apiserver/suite.py` checks this.

Law of this package: the server must not share code with dradriver's own clients, which tests run against it,
because an error in shared code would stay hidden. No module of this package may import `dradriver.model`,
`dradriver.kube`, `dradriver.allocator` or `dradriver.cel`; the caller passes in a CEL check. Code for
individual kinds must be in `kinds/resources.py`, `strategies/`, `validation/` and `requests/tables.py`.

| module | contents |
|---|---|
| `server` | start and stop: credentials, state, socket, tasks |
| `backend` | the objects that every handler and controller uses |
| `status` | the errors with which the server answers |
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
