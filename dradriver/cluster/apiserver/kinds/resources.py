"""The served kinds, one row for each kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from dradriver.cluster.apiserver.schema.types import SchemaType
from dradriver.cluster.apiserver.status import Subject
from dradriver.cluster.apiserver.structural import Structure

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ServedResource:
    """One served resource.

    Attributes:
        group: API group; "" for core.
        version: API version.
        plural: the name in paths.
        kind: the kind of the objects.
        namespaced: whether the objects are in namespaces.
        schema: name of the objects' struct; None for custom resources.
        short_names: the short names for kubectl.
        subresources: `status`, `binding`, `log`.
        selectable: the fields that a field selector may use, and their paths in the stored object.
        stored_as: the storage key, if the resource shares the storage of another resource. For example, the
            events of events.k8s.io are in the storage of core events.
        renames: if the resource shares a storage, the served field name for each stored field name.
        returns_deleted: whether a finished delete answers with the object, not with a Status.
        categories: kubectl's groups to which the kind belongs, such as `all`.
        generation: whether a change of the spec increments metadata.generation.
        structure: the structural schema of a custom kind; None for all other kinds.
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
    structure: Structure | None = None

    @property
    def type(self) -> str | SchemaType | None:
        """The type of the objects, or the name of their struct, for server-side apply."""
        return self.structure.type if self.structure is not None else self.schema

    @property
    def storage(self) -> str:
        """The storage key of the resource's objects."""
        return self.stored_as or f"{self.group}/{self.plural}"

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return self.group, self.version, self.kind

    @property
    def has_kubernetes_finalizers(self) -> bool:
        """Whether a finalizer without a domain must be one of Kubernetes' own."""
        return self.schema is not None and self.storage != CRDS

    def subject(self, name: str = "", uid: str = "") -> Subject:
        """Return the reference for errors about an object. These errors name the resource."""
        return Subject(self.group, self.plural, name, uid)

    def kind_subject(self, name: str = "") -> Subject:
        """Return the reference for errors about an object's content. These errors name the kind."""
        return Subject(self.group, self.kind, name)


class _Options(TypedDict, total=False):
    short_names: tuple[str, ...]
    subresources: tuple[str, ...]
    selectable: Mapping[str, str]
    returns_deleted: bool
    categories: tuple[str, ...]
    generation: bool


def _map_to_self(*paths: str) -> dict[str, str]:
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
    **_map_to_self("metadata.namespace", "reason", "type", "reportingComponent"),
    **_map_to_self(*(f"involvedObject.{each}" for each in _REFERENCE)),
    "source": "source.component",
}
_EVENTS_FIELDS = {
    **_map_to_self("metadata.namespace", "reason", "type"),
    "reportingController": "reportingComponent",
    **{f"regarding.{each}": f"involvedObject.{each}" for each in _REFERENCE},
}
_DRA = "resource.k8s.io"

NAMESPACED, CLUSTER = True, False
_POD_FIELDS = _map_to_self(
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
_NAMESPACE = _map_to_self("metadata.namespace")


def _core_resource(
    plural: str, kind: str, *, namespaced: bool = True, **more: Unpack[_Options]
) -> ServedResource:
    return ServedResource("", "v1", plural, kind, namespaced, f"core.{kind}", **more)


def _dra_resource(plural: str, kind: str, *, namespaced: bool, **more: Unpack[_Options]) -> ServedResource:
    more = {"returns_deleted": True, **more}
    return ServedResource(_DRA, "v1", plural, kind, namespaced, f"resource.{kind}", **more)


RESOURCES: tuple[ServedResource, ...] = (
    _core_resource(
        "namespaces",
        "Namespace",
        namespaced=CLUSTER,
        short_names=("ns",),
        subresources=("status", "finalize"),
        selectable=_map_to_self("status.phase"),
    ),
    _core_resource(
        "nodes",
        "Node",
        namespaced=CLUSTER,
        short_names=("no",),
        subresources=("status",),
        selectable=_map_to_self("spec.unschedulable"),
    ),
    _core_resource(
        "pods",
        "Pod",
        short_names=("po",),
        subresources=("status", "binding", "log"),
        selectable=_POD_FIELDS,
        returns_deleted=True,
        categories=("all",),
        generation=True,
    ),
    _core_resource("events", "Event", short_names=("ev",), selectable=_EVENT_FIELDS),
    _core_resource(
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources=("token",),
        selectable=_NAMESPACE,
        returns_deleted=True,
    ),
    _core_resource("configmaps", "ConfigMap", short_names=("cm",), selectable=_NAMESPACE),
    _core_resource(
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        subresources=("status",),
        selectable=_NAMESPACE,
        returns_deleted=True,
    ),
    _core_resource("secrets", "Secret", selectable=_map_to_self("metadata.namespace", "type")),
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
        "coordination.k8s.io", "v1", "leases", "Lease", NAMESPACED, "coordination.Lease", selectable=_NAMESPACE
    ),
    ServedResource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        NAMESPACED,
        "policy.PodDisruptionBudget",
        short_names=("pdb",),
        subresources=("status",),
        selectable=_NAMESPACE,
        generation=True,
    ),
    _dra_resource("deviceclasses", "DeviceClass", namespaced=CLUSTER, generation=True),
    _dra_resource(
        "resourceclaims",
        "ResourceClaim",
        namespaced=NAMESPACED,
        subresources=("status",),
        selectable=_NAMESPACE,
    ),
    _dra_resource(
        "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=NAMESPACED, selectable=_NAMESPACE
    ),
    _dra_resource(
        "resourceslices",
        "ResourceSlice",
        namespaced=CLUSTER,
        selectable=_map_to_self("spec.nodeName", "spec.driver", "spec.pool.name"),
        generation=True,
    ),
    _dra_resource(
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


def get_schema(storage: str) -> str | None:
    """Return the struct of the objects in a storage; None for custom resources."""
    return _SCHEMAS.get(storage)


class Registry:
    """The resources that are served now: the rows above, and the resources of custom resource definitions."""

    def __init__(self) -> None:
        self._fixed = {(each.group, each.version, each.plural): each for each in RESOURCES}
        self._custom: dict[str, tuple[ServedResource, ...]] = {}

    def all(self) -> list[ServedResource]:
        """Return every resource."""
        return [*self._fixed.values(), *(each for rows in self._custom.values() for each in rows)]

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource of a path; None if no resource is served at this path."""
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
        """Serve the versions (`rows`) of a custom resource definition; if there are none, stop serving it."""
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
