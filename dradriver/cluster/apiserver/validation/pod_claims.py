"""Rules of the claims of a pod, and of the references that its containers have to them."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.validation.field import Causes, duplicate, invalid, not_found
from dradriver.cluster.apiserver.validation.names import check_required_label

__all__ = ["check_pod_claims"]


def check_pod_claims(spec: Object) -> Causes:
    """Return the broken rules of the claims of a pod, and of the containers' references to them.

    Args:
        spec: the pod's spec.
    """
    causes: Causes = []
    names: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        path, name = f"spec.resourceClaims[{index}]", claim.get("name", "")
        causes += check_required_label(name, f"{path}.name")
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field)]
        if len(sources) != 1:
            one_of = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(
                invalid(path, claim, one_of if not sources else one_of.replace("one of", "at most one of"))
            )
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            for number, used in enumerate(dig(container, "resources", "claims") or ()):
                if used.get("name") not in names:
                    at = f"spec.{field}[{index}].resources.claims[{number}]"
                    detail = "must be one of the names in pod.spec.resourceClaims"
                    detail += "" if names else " which is empty"
                    causes.append(not_found(at, used.get("name", ""), detail))
    return causes
