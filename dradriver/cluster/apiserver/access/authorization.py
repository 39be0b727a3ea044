"""Permissions: only users bound to a node are restricted; all other authenticated users may do everything.

The rules for ResourceSlices are the rules of the real Node authorizer and NodeRestriction. Every user may read
all other kinds. A kubelet may write only nodes, pods, events, leases and service accounts. A driver bound to a
node may write all kinds except nodes, namespaces and device classes. This server has no RBAC.
"""

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import PODS
from dradriver.cluster.apiserver.requests.parse import Target
from dradriver.cluster.apiserver.requests.selectors import FieldRequirement
from dradriver.cluster.apiserver.status import StatusError, forbidden

_READS = frozenset({"get", "list", "watch"})
_SCOPED = frozenset({"list", "watch", "deletecollection"})
_SLICES = "resourceslices"


def authorize(
    user: Identity, target: Target, fields: tuple[FieldRequirement, ...], existing: Object | None
) -> None:
    """Reject a request that a user bound to a node may not make.

    Args:
        user: the user.
        target: the verb and the resource.
        fields: the field selector of the request.
        existing: the stored object that the request names; None if it names none or the object does not exist.

    Raises:
        StatusError: 403: the user may not make this request.
    """
    if user.is_admin or not user.node:
        return
    if target.resource.plural == _SLICES:
        _authorize_slices(user, target, fields, existing)
    elif user.is_node:
        _authorize_node(user, target)
    elif target.verb not in _READS and target.resource.plural in {"nodes", "namespaces", "deviceclasses"}:
        raise deny(user, target, "")


def _authorize_slices(
    user: Identity, target: Target, fields: tuple[FieldRequirement, ...], existing: Object | None
) -> None:
    own_only = any(each.path == "spec.nodeName" and each.equal and each.value == user.node for each in fields)
    if target.verb in _SCOPED:
        # In a real cluster, RBAC decides on reads by a service account. This code checks reads by a kubelet and
        # all deletions of collections.
        if not own_only and (user.is_node or target.verb == "deletecollection"):
            raise deny(
                user, target, "can only list/watch/deletecollection resourceslices with nodeName field selector"
            )
        return
    named = target.verb in {"update", "patch", "delete"} or (target.verb == "get" and user.is_node)
    # A missing object does not belong to the kubelet's node.
    hidden = user.is_node if existing is None else _is_foreign(user, existing)
    if named and hidden:
        raise deny(user, target, f"no relationship found between node '{user.node}' and this object")


def _is_foreign(user: Identity, resource_slice: Object) -> bool:
    """Return whether a slice does not belong to the user, who is bound to a node.

    A slice without a node name is foreign to kubelets, but not to drivers.
    """
    node = dig(resource_slice, "spec", "nodeName")
    return node != user.node and (node is not None or user.is_node)


def _authorize_node(user: Identity, target: Target) -> None:
    if target.verb in _READS or target.resource.plural in {"pods", "events", "leases", "serviceaccounts"}:
        return
    if target.resource.plural == "nodes":
        if target.verb == "create" or target.name == user.node:
            return
        raise forbidden(
            target.resource.subject(target.name),
            f'node "{user.node}" is not allowed to modify node "{target.name}"',
        )
    raise deny(user, target, "")


def admit_slice(user: Identity, target: Target, obj: Object) -> None:
    """Reject a new slice for another node, and a kubelet's new slice without a node name.

    Raises:
        StatusError: 403: the slice is rejected.
    """
    bound = user.node and not user.is_admin
    if bound and target.resource.plural == _SLICES and _is_foreign(user, obj):
        name = obj["metadata"].get("name", "")
        raise forbidden(
            target.resource.subject(name),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        )


def admit_pod(user: Identity, target: Target, old: Object, new: Object | None) -> None:
    """Reject a kubelet's write to a pod of another node, or to fields that a kubelet may not set.

    Args:
        user: the writer.
        target: the pod.
        old: the stored pod.
        new: the pod after the write; None for a delete.

    Raises:
        StatusError: 403: the write is rejected.
    """
    if not user.is_node or target.resource.storage != PODS:
        return
    subject, node = target.resource.subject(target.name), f'node "{user.node}"'
    if dig(old, "spec", "nodeName") != user.node:
        doing = "delete pods" if new is None else "update pod status for pods"
        raise forbidden(subject, f"{node} can only {doing} with spec.nodeName set to itself")
    if new is None:
        return
    if new["metadata"].get("labels") != old["metadata"].get("labels"):
        raise forbidden(subject, f"{node} cannot update labels through pod status")
    for field, description in _READ_ONLY_STATUS_FIELDS.items():
        if dig(new, "status", field) != dig(old, "status", field):
            raise forbidden(subject, f"{node} cannot update {description}")


_READ_ONLY_STATUS_FIELDS = {
    "resourceClaimStatuses": "resource claim statues",  # the real server's spelling
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}


def deny(user: Identity, target: Target, reason: str) -> StatusError:
    """Return a 403 error with the message of the real server."""
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    detail = (
        f'User "{user.name}" cannot {target.verb} resource "{target.resource_path}" in API group '
        f'"{target.resource.group}" {where}'
    )
    if reason:
        detail += f": node: {reason}" if user.is_node else f": {reason}"
    return forbidden(target.resource.subject(target.name), detail)
