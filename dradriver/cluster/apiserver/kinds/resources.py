"""The served kinds, one row each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from dradriver.cluster.apiserver.status import About

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ServedResource:
    """One served resource.

    Attributes:
        group: API group, "" for core.
        version: API version.
        plural: the name in paths.
        kind: the kind of its objects.
        namespaced: whether its objects live in namespaces.
        schema: the struct of its objects, None for custom resources.
        short_names: the short names for kubectl.
        subresources: `status`, `binding`, `log`.
        selectable: the fields that a field selector may use, and their paths in the stored object.
        stored_as: the storage key, when it is another resource's (events.k8s.io and core events share theirs).
        renames: for such a view, stored field -> served field.
        returns_deleted: a finished delete answers the object, not a Status.
        categories: kubectl's groups of kinds (`all`).
        generation: whether a change of the spec increments metadata.generation.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: str | None
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable: Mapping[str, str] = field(default_factory=dict)
    stored_as: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    returns_deleted: bool = False
    categories: tuple[str, ...] = ()
    generation: bool = False
    singular: str = ""
    uid: str = ""

    @property
    def storage(self) -> str:
        """The storage key of its objects."""
        return self.stored_as or f"{self.group}/{self.plural}"

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return self.group, self.version, self.kind

    def about(self, name: str = "", uid: str = "") -> About:
        """Return the reference for errors about an object, which name the resource."""
        return About(self.group, self.plural, name, uid)

    def about_kind(self, name: str = "") -> About:
        """Return the reference for errors about an object's content, which name the kind."""
        return About(self.group, self.kind, name)


class _Options(TypedDict, total=False):
    short_names: tuple[str, ...]
    subresources: tuple[str, ...]
    selectable: Mapping[str, str]
    returns_deleted: bool
    categories: tuple[str, ...]
    generation: bool


def _same(*paths: str) -> dict[str, str]:
    return {path: path for path in paths}


_EVENT_STORAGE = "/events"
_EVENT_RENAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "reportingComponent": "reportingController",
}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **_same("metadata.namespace", "reason", "type", "reportingComponent"),
    **_same(*(f"involvedObject.{each}" for each in _REFERENCE)),
    "source": "source.component",
}
_EVENTS_FIELDS = {
    **_same("metadata.namespace", "reason", "type"),
    "reportingController": "reportingComponent",
    **{f"regarding.{each}": f"involvedObject.{each}" for each in _REFERENCE},
}
_DRA = "resource.k8s.io"

NAMESPACED, CLUSTER = True, False
_POD_FIELDS = _same(
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_NAMESPACE = _same("metadata.namespace")


def _core(plural: str, kind: str, *, namespaced: bool = True, **more: Unpack[_Options]) -> ServedResource:
    return ServedResource("", "v1", plural, kind, namespaced, f"core.{kind}", **more)


def _dra(plural: str, kind: str, *, namespaced: bool, **more: Unpack[_Options]) -> ServedResource:
    more = {"returns_deleted": True, **more}
    return ServedResource(_DRA, "v1", plural, kind, namespaced, f"resource.{kind}", **more)


RESOURCES: tuple[ServedResource, ...] = (
    _core(
        "namespaces",
        "Namespace",
        namespaced=CLUSTER,
        short_names=("ns",),
        subresources=("status", "finalize"),
        selectable=_same("status.phase"),
    ),
    _core(
        "nodes",
        "Node",
        namespaced=CLUSTER,
        short_names=("no",),
        subresources=("status",),
        selectable=_same("spec.unschedulable"),
    ),
    _core(
        "pods",
        "Pod",
        short_names=("po",),
        subresources=("status", "binding", "log"),
        selectable=_POD_FIELDS,
        returns_deleted=True,
        categories=("all",),
        generation=True,
    ),
    _core("events", "Event", short_names=("ev",), selectable=_EVENT_FIELDS),
    _core(
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources=("token",),
        selectable=_NAMESPACE,
        returns_deleted=True,
    ),
    _core("configmaps", "ConfigMap", short_names=("cm",), selectable=_NAMESPACE),
    _core(
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        subresources=("status",),
        selectable=_NAMESPACE,
        returns_deleted=True,
    ),
    _core("secrets", "Secret", selectable=_same("metadata.namespace", "type")),
    ServedResource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        NAMESPACED,
        "events.Event",
        short_names=("ev",),
        selectable=_EVENTS_FIELDS,
        stored_as=_EVENT_STORAGE,
        renames=_EVENT_RENAMES,
    ),
    ServedResource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        NAMESPACED,
        "coordination.Lease",
        selectable=_NAMESPACE,
    ),
    _dra("deviceclasses", "DeviceClass", namespaced=CLUSTER, generation=True),
    _dra(
        "resourceclaims",
        "ResourceClaim",
        namespaced=NAMESPACED,
        subresources=("status",),
        selectable=_NAMESPACE,
    ),
    _dra(
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        namespaced=NAMESPACED,
        selectable=_NAMESPACE,
    ),
    _dra(
        "resourceslices",
        "ResourceSlice",
        namespaced=CLUSTER,
        selectable=_same("spec.nodeName", "spec.driver", "spec.pool.name"),
        generation=True,
    ),
    _dra(
        "devicetaintrules",
        "DeviceTaintRule",
        namespaced=CLUSTER,
        returns_deleted=False,
        subresources=("status",),
        generation=True,
    ),
    ServedResource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        CLUSTER,
        "apiextensions.CustomResourceDefinition",
        short_names=("crd", "crds"),
        subresources=("status",),
        categories=("api-extensions",),
        generation=True,
    ),
)

CRDS = "apiextensions.k8s.io/customresourcedefinitions"
EVENTS = _EVENT_STORAGE
NAMESPACES = "/namespaces"
NODES = "/nodes"
PODS = "/pods"
QUOTAS = "/resourcequotas"
SERVICE_ACCOUNTS = "/serviceaccounts"
CLAIMS = f"{_DRA}/resourceclaims"
CLASSES = f"{_DRA}/deviceclasses"
SLICES = f"{_DRA}/resourceslices"
_SCHEMAS = {each.storage: each.schema for each in reversed(RESOURCES) if not each.stored_as}


def schema_of(storage: str) -> str | None:
    """Return the struct of the objects in a storage; None for custom resources."""
    return _SCHEMAS.get(storage)


class Registry:
    """The resources that are served now: the rows above and those of custom resource definitions."""

    def __init__(self) -> None:
        self._fixed = {(each.group, each.version, each.plural): each for each in RESOURCES}
        self._custom: dict[str, tuple[ServedResource, ...]] = {}

    def all(self) -> list[ServedResource]:
        """Return every resource."""
        return [*self._fixed.values(), *(each for rows in self._custom.values() for each in rows)]

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource of a path, None if none is served there."""
        found = self._fixed.get((group, version, plural))
        if found is not None:
            return found
        for each in self._custom.get(f"{plural}.{group}", ()):
            if each.version == version:
                return each
        return None

    def by_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind, as owner references name it."""
        for each in self.all():
            if each.kind == kind and each.api_version == api_version:
                return each
        return None

    def define(self, name: str, rows: tuple[ServedResource, ...]) -> None:
        """Serve the versions of a custom resource definition, or stop serving it if there are no rows."""
        if rows:
            self._custom[name] = rows
        else:
            self._custom.pop(name, None)

    def preferred(self) -> list[ServedResource]:
        """Return one row for each storage: the preferred version of each kind."""
        seen: dict[str, ServedResource] = {}
        for each in self.all():
            seen.setdefault(each.storage, each)
        return list(seen.values())
