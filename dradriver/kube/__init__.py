"""Client for the API server: typed requests over one HTTP session, a list-and-watch cache, events and leases.

Rules for code in this package: it must only move objects between the API server and values of
`dradriver.model`. It must not decide anything about devices, claims or nodes. Every body that it writes must be
canonical JSON. Every error of the server must be an `ApiError` with the server's message. Importing the package
must not load an HTTP library, so that commands without a cluster start quickly. `Client.connect` loads the
library.

| module | contents |
|---|---|
| `client` | typed calls: get, list, watch, create, replace, patch, delete, logs |
| `resources` | the resources and their paths in the API |
| `cache` | a local copy of a collection, kept current by list and watch, with retries |
| `watch_events` | the events of a watch and the JSON lines that carry them |
| `events` | writes Events, aggregates repeats and limits the rate |
| `leader` | leader election on a Lease |
| `leading` | does work only while this process holds the Lease |
| `object_tasks` | runs a task for each object with work to do |
| `errors` | the errors of the API server |
| `backoff` | wait times between retries |
| `definitions` | the custom resource definitions of classic DRA, and their installation |
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
    CONFIG_MAPS,
    CONTROLLER_ALLOCATIONS,
    CRDS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Resource,
)
from dradriver.kube.watch_events import WatchEvent, WatchKind

__all__ = [
    "CLAIMS",
    "CLASSES",
    "CONFIG_MAPS",
    "CONTROLLER_ALLOCATIONS",
    "CRDS",
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SCHEDULING_CONTEXTS",
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
