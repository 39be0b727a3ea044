"""Client for the API server: typed objects, one HTTP session, a list-and-watch cache, events, leases.

Law of this package: it moves objects between the API server and values of `dradriver.model`, and does nothing
else. It takes no decision about devices, claims or nodes. Every body that it writes is canonical JSON. Every
error is an `ApiError` with the server's message. Importing the package loads no HTTP library, so commands that
never contact a cluster start quickly. `Client.connect` loads it.

| module | contents |
|---|---|
| `client` | typed calls: get, list, watch, create, replace, patch, delete, logs |
| `resources` | the resources and their paths in the API |
| `cache` | a collection that a watch keeps current |
| `watching` | the events of a watch and the JSON lines that carry them |
| `events` | writes Events, aggregates repeats, limits the rate |
| `leader` | leader election on a Lease |
| `errors` | the errors of the API server |
| `backoff` | wait times between retries |
| `config` | address, TLS settings and credentials of the API server |
| `http` | HTTP requests, retries and limits on answers |
"""

from dradriver.kube.cache import Cache, Change, ChangeKind
from dradriver.kube.client import Client, Listing, PatchKind
from dradriver.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from dradriver.kube.events import EventRecorder
from dradriver.kube.resources import (
    CLAIMS,
    CLASSES,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Resource,
)
from dradriver.kube.watching import WatchEvent, WatchKind

__all__ = [
    "CLAIMS",
    "CLASSES",
    "CRDS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SERVICE_ACCOUNTS",
    "SLICES",
    "TAINT_RULES",
    "TEMPLATES",
    "AlreadyExists",
    "ApiError",
    "Cache",
    "Change",
    "ChangeKind",
    "Client",
    "Conflict",
    "EventRecorder",
    "Forbidden",
    "Gone",
    "Invalid",
    "Listing",
    "NotFound",
    "PatchKind",
    "Resource",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "WatchEvent",
    "WatchKind",
]
