"""Discovery: the served groups, versions and resources, in the old and the aggregated form."""

from collections.abc import Iterable

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.resources import VERBS, Registry, ServedResource

VERSION: Object = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-08-26T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "status": ("", ("get", "patch", "update")),
    "binding": ("Binding", ("create",)),
    "log": ("", ("get",)),
    "finalize": ("", ("update",)),
    "token": ("TokenRequest", ("create",)),
}
_REVIEWS = (
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"),
)


def wants_aggregated(accept: str) -> bool:
    """Return whether a client asks for the aggregated form."""
    options = accept.replace(" ", "")
    return any(
        "g=apidiscovery.k8s.io" in clause
        and "v=v2" in clause.split(";")
        and "as=APIGroupDiscoveryList" in clause
        for clause in options.split(",")
    )


def api_versions() -> Object:
    """Return /api in the old form."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(registry: Registry) -> Object:
    """Return /apis in the old form."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [group(registry, name) for name in _groups(registry) if name],
    }


def group(registry: Registry, name: str) -> Object | None:
    """Return /apis/GROUP, or None for a group that is not served."""
    versions = _groups(registry).get(name)
    if versions is None:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": listed,
        "preferredVersion": listed[0],
    }


def resources(registry: Registry, name: str, version: str) -> Object | None:
    """Return /api/v1 or /apis/GROUP/VERSION, or None for a version that is not served."""
    if version not in _groups(registry).get(name, ()):
        return None
    listed = [entry for each in _served(registry, name, version) for entry in _entries(each)]
    for review_group, review_version, plural, kind in _REVIEWS:
        if (review_group, review_version) == (name, version):
            listed.append(
                {
                    "name": plural,
                    "singularName": kind.lower(),
                    "namespaced": False,
                    "kind": kind,
                    "verbs": ["create"],
                }
            )
    group_version = f"{name}/{version}" if name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def aggregated(registry: Registry, *, core: bool) -> Object:
    """Return /api or /apis in the aggregated form."""
    names = [name for name in _groups(registry) if (name == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(registry, name) for name in names],
    }


def _groups(registry: Registry) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    served = [(each.group, each.version) for each in registry.all()] + [(each[0], each[1]) for each in _REVIEWS]
    for name, version in served:
        versions = found.setdefault(name, [])
        if version not in versions:
            versions.append(version)
    return found


def _served(registry: Registry, name: str, version: str) -> Iterable[ServedResource]:
    found = (each for each in registry.all() if (each.group, each.version) == (name, version))
    return sorted(found, key=lambda each: each.plural)


def _entries(resource: ServedResource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_subresource(resource, each) for each in resource.subresources)]


def _subresource(resource: ServedResource, name: str) -> Object:
    kind, verbs = _SUBRESOURCES[name]
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind or resource.kind,
        "verbs": list(verbs),
    }


def _aggregated_group(registry: Registry, name: str) -> Object:
    versions = [
        {
            "version": version,
            "freshness": "Current",
            "resources": _aggregated_resources(registry, name, version),
        }
        for version in _groups(registry)[name]
    ]
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": versions,
    }


def _aggregated_resources(registry: Registry, name: str, version: str) -> list[Object]:
    found = []
    for each in _served(registry, name, version):
        subresources = []
        for subresource in each.subresources:
            kind, verbs = _SUBRESOURCES[subresource]
            response = {"group": each.group, "version": each.version, "kind": kind or each.kind}
            subresources.append({"subresource": subresource, "responseKind": response, "verbs": list(verbs)})
        found.append(
            {
                "resource": each.plural,
                "responseKind": {"group": each.group, "version": each.version, "kind": each.kind},
                "scope": "Namespaced" if each.namespaced else "Cluster",
                "singularResource": each.singular or each.kind.lower(),
                "verbs": list(VERBS),
                "shortNames": list(each.short_names),
                "categories": list(each.categories),
                "subresources": subresources,
            }
        )
    for group_name, group_version, plural, kind in _REVIEWS:
        if (group_name, group_version) == (name, version):
            found.append(
                {
                    "resource": plural,
                    "responseKind": {"group": name, "version": version, "kind": kind},
                    "scope": "Cluster",
                    "singularResource": kind.lower(),
                    "verbs": ["create"],
                }
            )
    return found
