"""Rules of CustomResourceDefinition."""

import re

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.structural import check_schema
from dradriver.cluster.apiserver.validation.field import Causes, invalid, not_supported, required
from dradriver.cluster.apiserver.validation.names import check_label, check_subdomain, to_causes

APPROVAL = "api-approved.kubernetes.io"
PROTECTED = re.compile(r"(^|\.)(k8s\.io|kubernetes\.io)$")
_SCOPES = ("Cluster", "Namespaced")
_NEEDS_APPROVAL = (
    f'protected groups must have approval annotation "{APPROVAL}", '
    "see https://github.com/kubernetes/enhancements/pull/1111"
)


def check_definition(obj: Object) -> Causes:
    """Check a custom resource definition."""
    spec = obj["spec"]
    group, names = spec["group"], spec["names"]
    causes = to_causes(check_subdomain, group, "spec.group") if group else [required("spec.group")]
    causes += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names[field]]
    name = obj["metadata"].get("name", "")
    if name != f"{names['plural']}.{group}":
        causes.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if not spec["scope"]:
        causes.append(required("spec.scope"))
    elif spec["scope"] not in _SCOPES:
        causes.append(not_supported("spec.scope", spec["scope"], _SCOPES))
    if PROTECTED.search(group) and not (obj["metadata"].get("annotations") or {}).get(APPROVAL):
        causes.append(required(f"metadata.annotations[{APPROVAL}]", _NEEDS_APPROVAL))
    return causes + _check_versions(spec.get("versions") or [])


def _check_versions(versions: list[Object]) -> Causes:
    if not versions:
        return [required("spec.versions")]
    causes: Causes = []
    schemas = [dig(version, "schema", "openAPIV3Schema") for version in versions]
    if sum(version["storage"] for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", [version["name"] for version in versions], detail))
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        causes += (
            to_causes(check_label, version["name"], f"{at}.name")
            if version["name"]
            else [required(f"{at}.name")]
        )
        schema = dig(version, "schema", "openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{at}.schema.openAPIV3Schema", "schemas are required"))
        elif schema not in schemas[:index]:
            # kube-apiserver reports a schema that all versions have as that of the definition.
            shared = all(each == schema for each in schemas)
            causes += check_schema(
                schema, "spec.validation.openAPIV3Schema" if shared else f"{at}.schema.openAPIV3Schema"
            )
    return causes
