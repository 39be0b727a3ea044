"""The resources that dradriver uses, and their paths in the API."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from dradriver.model.classic.names import GROUP, VERSION

__all__ = [
    "CLAIMS",
    "CLASSES",
    "CONFIG_MAPS",
    "CONTROLLER_ALLOCATIONS",
    "CRDS",
    "DISRUPTION_BUDGETS",
    "DRA_GROUP",
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
    "Resource",
]

DRA_GROUP: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and its path in the API.

    Attributes:
        group: the API group, empty for the core group.
        version: the version that callers see. For `resource.k8s.io`, the client may use another version in its
            requests.
        plural: the plural name, which URLs contain.
        kind: the kind, which objects contain.
        namespaced: whether the objects belong to namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this resource."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def at_version(self, version: str) -> "Resource":
        """Return this resource in another version of its API group.

        Args:
            version: the version, such as `v1beta1`.
        """
        return self if version == self.version else replace(self, version=version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, an object or a subresource.

        Args:
            namespace: the namespace. Empty: all namespaces.
            name: the object's name. Empty: the collection.
            subresource: a subresource of the object, such as `status`. Empty: the object itself.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
DISRUPTION_BUDGETS: Final = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True
)
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CLASSES: Final = Resource(DRA_GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False)
CLAIMS: Final = Resource(DRA_GROUP, "v1", "resourceclaims", "ResourceClaim", namespaced=True)
TEMPLATES: Final = Resource(DRA_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True)
SLICES: Final = Resource(DRA_GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False)
SCHEDULING_CONTEXTS: Final = Resource(
    GROUP, VERSION, "podschedulingcontexts", "PodSchedulingContext", namespaced=True
)
CONTROLLER_ALLOCATIONS: Final = Resource(
    GROUP, VERSION, "controllerallocations", "ControllerAllocation", namespaced=True
)
TAINT_RULES: Final = Resource(DRA_GROUP, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
