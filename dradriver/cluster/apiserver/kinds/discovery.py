"""Builds discovery documents: the served groups, versions and resources, in the old and the aggregated form."""

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
_REVIEWS = tuple(
    ServedResource(group, "v1", plural, kind, namespaced=False, schema=None)
    for group, plural, kind in (
        ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    )
)
"""Reviews, which can only be created and are not stored."""


def wants_aggregated(accept: str) -> bool:
    """Return whether a client requests the aggregated form."""
    options = accept.replace(" ", "")
    return any(
        "g=apidiscovery.k8s.io" in clause
        and "v=v2" in clause.split(";")
        and "as=APIGroupDiscoveryList" in clause
        for clause in options.split(",")
    )


def build_api_versions() -> Object:
    """Return /api in the old form."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def build_group_list(registry: Registry) -> Object:
    """Return /apis in the old form."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [build_group(registry, name) for name in _list_versions(registry) if name],
    }


def build_group(registry: Registry, name: str) -> Object | None:
    """Return /apis/GROUP, or None for a group that is not served."""
    versions = _list_versions(registry).get(name)
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


def build_resource_list(registry: Registry, name: str, version: str) -> Object | None:
    """Return /api/v1 or /apis/GROUP/VERSION, or None for a version that is not served."""
    if version not in _list_versions(registry).get(name, ()):
        return None
    listed = [entry for each in _list_resources(registry, name, version) for entry in _build_entries(each)]
    group_version = f"{name}/{version}" if name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def build_aggregated(registry: Registry, *, core: bool) -> Object:
    """Return /api or /apis in the aggregated form."""
    names = [name for name in _list_versions(registry) if (name == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_build_aggregated_group(registry, name) for name in names],
    }


def _list_versions(registry: Registry) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in (*registry.all(), *_REVIEWS):
        versions = found.setdefault(each.group, [])
        if each.version not in versions:
            versions.append(each.version)
    return found


def _list_resources(registry: Registry, name: str, version: str) -> Iterable[ServedResource]:
    found = [each for each in registry.all() if (each.group, each.version) == (name, version)]
    reviews = [each for each in _REVIEWS if (each.group, each.version) == (name, version)]
    return sorted(found, key=lambda each: each.plural) + reviews


def _list_verbs(resource: ServedResource) -> list[str]:
    return ["create"] if resource in _REVIEWS else list(VERBS)


def _build_entries(resource: ServedResource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _list_verbs(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_build_subresource(resource, each) for each in resource.subresources)]


def _build_subresource(resource: ServedResource, name: str) -> Object:
    kind, verbs = _SUBRESOURCES[name]
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind or resource.kind,
        "verbs": list(verbs),
    }


def _build_aggregated_group(registry: Registry, name: str) -> Object:
    versions = [
        {
            "version": version,
            "freshness": "Current",
            "resources": _build_aggregated_resources(registry, name, version),
        }
        for version in _list_versions(registry)[name]
    ]
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": versions,
    }


def _build_aggregated_resources(registry: Registry, name: str, version: str) -> list[Object]:
    found = []
    for each in _list_resources(registry, name, version):
        entry: Object = {
            "resource": each.plural,
            "responseKind": {"group": each.group, "version": each.version, "kind": each.kind},
            "scope": "Namespaced" if each.namespaced else "Cluster",
            "singularResource": each.singular or each.kind.lower(),
            "verbs": _list_verbs(each),
        }
        if each not in _REVIEWS:
            entry |= {
                "shortNames": list(each.short_names),
                "categories": list(each.categories),
                "subresources": [_build_aggregated_subresource(each, key) for key in each.subresources],
            }
        found.append(entry)
    return found


def _build_aggregated_subresource(resource: ServedResource, name: str) -> Object:
    kind, verbs = _SUBRESOURCES[name]
    response = {"group": resource.group, "version": resource.version, "kind": kind or resource.kind}
    return {"subresource": name, "responseKind": response, "verbs": list(verbs)}
