"""Delete: preconditions, grace, finalizers, propagation.

An object without finalizers is removed at once. An object with finalizers stays until they are removed, and a
pod on a node stays until its kubelet has ended it. Until its removal, the object has a deletionTimestamp.
"""

from dataclasses import dataclass
from datetime import timedelta

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, copy, dig
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES, ServedResource
from dradriver.cluster.apiserver.requests.decoding import read_options
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.status import Subject, conflict, forbidden, invalid
from dradriver.cluster.apiserver.storage.store import Stored
from dradriver.cluster.apiserver.strategies import strategy_of
from dradriver.cluster.apiserver.validation.field import not_supported

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_PROPAGATION = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_PROTECTED = frozenset({"default", "kube-system", "kube-public"})

_MAX_GRACE_SECONDS = 1 << 32
"""The maximum grace period in seconds. The end of a longer period can't be represented as a date."""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a delete."""

    grace: int | None = None
    propagation: str = "Background"
    uid: str = ""
    revision: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The last state of the object after the request, and whether the object is gone."""

    stored: Stored
    gone: bool


def parse_delete_options(request: ApiRequest) -> DeleteOptions:
    """Read the options from body and query.

    Raises:
        StatusError: 400 or 422 for invalid options.
    """
    body = read_options(request.body, request.content_type, "meta.DeleteOptions")
    grace = body.get("gracePeriodSeconds")
    if grace is None and request.query.get("gracePeriodSeconds"):
        grace = request.read_number("gracePeriodSeconds")
    propagation = body.get("propagationPolicy") or request.query.get("propagationPolicy") or "Background"
    if body.get("orphanDependents"):
        propagation = "Orphan"
    if propagation not in _PROPAGATION:
        allowed = ("Foreground", "Background", "Orphan", "nil")
        raise invalid(
            Subject("meta.k8s.io", "DeleteOptions"), [not_supported("propagationPolicy", propagation, allowed)]
        )
    return DeleteOptions(
        grace,
        propagation,
        dig(body, "preconditions", "uid") or "",
        dig(body, "preconditions", "resourceVersion") or "",
        dry_run=request.dry_run or bool(body.get("dryRun")),
    )


def delete(server: ServerParts, resource: ServedResource, old: Stored, options: DeleteOptions) -> DeleteResult:
    """Delete an object, or mark it as being deleted.

    Raises:
        StatusError: 409 if a precondition failed; 403 if the object must not be deleted.
    """
    _check(resource, old, options)
    obj = copy(old.object)
    metadata = obj["metadata"]
    grace = strategy_of(resource).grace(obj, options.grace)
    pending = metadata.get("deletionTimestamp") is not None
    if not pending or grace < metadata.get("deletionGracePeriodSeconds", 0):
        at = server.now() + timedelta(seconds=min(grace, _MAX_GRACE_SECONDS))
        metadata["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace
    _propagate(metadata, options.propagation, pending=pending)
    if resource.storage == NAMESPACES:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    holds = (
        metadata.get("finalizers") or dig(obj, "spec", "finalizers")
        if resource.storage == NAMESPACES
        else metadata.get("finalizers")
    )
    if not holds and metadata["deletionGracePeriodSeconds"] == 0:
        return DeleteResult(old if options.dry_run else server.store.delete(old), gone=True)
    if obj == old.object or options.dry_run:
        return DeleteResult(old, gone=False)
    return DeleteResult(server.store.put(resource.storage, obj), gone=False)


def _propagate(metadata: Object, policy: str, *, pending: bool) -> None:
    wanted = _PROPAGATION[policy]
    finalizers = [
        each for each in metadata.get("finalizers") or () if pending or each not in {ORPHAN, FOREGROUND}
    ]
    if wanted and wanted not in finalizers and not pending:
        finalizers.append(wanted)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _check(resource: ServedResource, old: Stored, options: DeleteOptions) -> None:
    name, uid = old.key[1], old.object["metadata"]["uid"]
    subject = resource.subject(name)
    if options.uid and options.uid != uid:
        reason = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
        raise conflict(subject, reason)
    if options.revision and options.revision != str(old.revision):
        reason = (
            f"Precondition failed: ResourceVersion in precondition: {options.revision}, "
            f"ResourceVersion in object meta: {old.revision}"
        )
        raise conflict(subject, reason)
    if resource.storage == NAMESPACES and name in _PROTECTED:
        raise forbidden(subject, "this namespace may not be deleted")
