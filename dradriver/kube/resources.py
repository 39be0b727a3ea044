"""The resources that dradriver uses, and their paths in the API."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

__all__ = [
    "CLAIMS",
    "CLASSES",
    "CONFIG_MAPS",
    "CRDS",
    "DRA_GROUP",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SERVICE_ACCOUNTS",
    "SLICES",
    "TAINT_RULES",
    "TEMPLATES",
    "Resource",
]

DRA_GROUP: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and its place in the API.

    Attributes:
        group: the API group, empty for the core group.
        version: the version that callers see; for `resource.k8s.io` the client may use another one with the
            server.
        plural: the name in URLs.
        kind: the name in objects.
        namespaced: whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def at(self, version: str) -> "Resource":
        """Return the same resource in another version of its group."""
        return self if version == self.version else replace(self, version=version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, an object or a subresource. An empty namespace means all."""
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
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CLASSES: Final = Resource(DRA_GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False)
CLAIMS: Final = Resource(DRA_GROUP, "v1", "resourceclaims", "ResourceClaim", namespaced=True)
TEMPLATES: Final = Resource(DRA_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True)
SLICES: Final = Resource(DRA_GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False)
TAINT_RULES: Final = Resource(DRA_GROUP, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
