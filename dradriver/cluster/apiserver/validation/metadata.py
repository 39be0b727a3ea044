"""Rules of `metadata`, which are the same for every kind."""

from collections.abc import Callable

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
)
from dradriver.cluster.apiserver.validation.names import check_label_value, check_qualified

_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
NameCheck = Callable[[str], list[str]]


def check_path_segment(name: str) -> list[str]:
    """Check a name that may be anything that fits into a URL."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in ("/", "%") if sign in name]


def check_new_metadata(metadata: Object, name_check: NameCheck) -> Causes:
    """Check the metadata of a new object."""
    name, path = metadata.get("name", ""), "metadata"
    causes: Causes = []
    if not name:
        causes.append(required(f"{path}.name", "name or generateName is required"))
    else:
        causes += [invalid(f"{path}.name", name, problem) for problem in name_check(name)]
    return causes + check_metadata(metadata, path)


def check_metadata(metadata: Object, path: str) -> Causes:
    """Check labels, annotations, finalizers and owners."""
    causes: Causes = []
    for key, value in (metadata.get("labels") or {}).items():
        causes += [invalid(f"{path}.labels", key, problem) for problem in check_qualified(key)]
        causes += [invalid(f"{path}.labels", value, problem) for problem in check_label_value(value)]
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        causes += [invalid(f"{path}.annotations", key, problem) for problem in check_qualified(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        causes.append(invalid(f"{path}.annotations", "", f"may not be more than {_ANNOTATIONS_LIMIT} bytes"))
    for finalizer in metadata.get("finalizers") or ():
        causes += [invalid(f"{path}.finalizers", finalizer, problem) for problem in check_qualified(finalizer)]
    return causes + _check_owners(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")


def check_finalizers(metadata: Object) -> Causes:
    """Check the finalizers of a Kubernetes kind: finalizers without a domain must be Kubernetes' own.

    The rule is not for custom kinds, and not for their definitions, whose own finalizer has no domain.
    """
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(metadata.get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD
    ]


def _check_owners(owners: list[Object], path: str) -> Causes:
    causes: Causes = []
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                causes.append(
                    invalid(f"{path}[{index}].{field}", "", f"{_OWNER_FIELDS[field]} must not be empty")
                )
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        detail = 'Only one reference can have Controller set to true. Found "true" in references for '
        causes.append(
            invalid(
                path,
                owners,
                detail + " and ".join(f"{each['kind']}/{each['name']}" for each in controllers[:2]),
            )
        )
    seen: set[str] = set()
    for index, owner in enumerate(owners):
        if owner.get("uid", "") in seen:
            causes.append(duplicate(f"{path}[{index}].uid", owner["uid"]))
        seen.add(owner.get("uid", ""))
    return causes


_OWNER_FIELDS = {"apiVersion": "version", "kind": "kind", "name": "name", "uid": "uid"}


def check_metadata_update(new: Object, old: Object) -> Causes:
    """Check the metadata of an update."""
    causes: Causes = []
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(field) != old.get(field):
            causes.append(immutable(f"metadata.{field}", new.get(field)))
    if old.get("deletionTimestamp"):
        added = [each for each in new.get("finalizers") or () if each not in (old.get("finalizers") or ())]
        if added:
            listed = "[]string{" + ", ".join(f'"{each}"' for each in added) + "}"
            detail = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            )
            causes.append(forbidden("metadata.finalizers", detail))
    return causes + check_metadata(new, "metadata")
