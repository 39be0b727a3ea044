"""The API server as this project sees it: typed objects, one HTTP session, a list+watch cache, events.

Law of this package: it moves objects between the API server and values of `dradriver.model`, and nothing
else. No decision about devices, claims or nodes is taken here; every body that is written is canonical JSON;
every error is an `ApiError` with the server's own words. Importing it loads no HTTP library (that happens in
`Client.connect`), so that commands which never talk to a cluster start quickly.
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
