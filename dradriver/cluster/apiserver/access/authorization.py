"""Permissions: an admin may do everything, an identity bound to a node little beyond its own node.

The rules for ResourceSlices are those of the real Node authorizer and NodeRestriction. Other kinds are open to
every authenticated user, except for writes to the cluster's own objects. There is no RBAC here.
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
    """Reject a request that a node-bound user may not make.

    Args:
        user: the user.
        target: the verb and the resource.
        fields: the field selector of the request.
        existing: the stored object that the request names, None without one.

    Raises:
        StatusError: 403.
    """
    if user.is_admin or not user.node:
        return
    if target.resource.plural == _SLICES:
        _slices(user, target, fields, existing)
    elif user.is_node:
        _node(user, target)
    elif target.verb not in _READS and target.resource.plural in {"nodes", "namespaces", "deviceclasses"}:
        raise denied(user, target, "")


def _slices(
    user: Identity, target: Target, fields: tuple[FieldRequirement, ...], existing: Object | None
) -> None:
    own_only = any(each.path == "spec.nodeName" and each.equal and each.value == user.node for each in fields)
    if target.verb in _SCOPED:
        # RBAC governs reads of a service account. Reads of a kubelet and all mass deletions are checked here.
        if not own_only and (user.is_node or target.verb == "deletecollection"):
            raise denied(
                user, target, "can only list/watch/deletecollection resourceslices with nodeName field selector"
            )
        return
    named = target.verb in {"update", "patch", "delete"} or (target.verb == "get" and user.is_node)
    # A missing object does not belong to the kubelet's node.
    hidden = user.is_node if existing is None else _foreign(user, existing)
    if named and hidden:
        raise denied(user, target, f"no relationship found between node '{user.node}' and this object")


def _foreign(user: Identity, resource_slice: Object) -> bool:
    """Return whether a slice is not the user's.

    A slice that several nodes reach belongs to a driver, but not to a kubelet.
    """
    node = dig(resource_slice, "spec", "nodeName")
    return node != user.node and (node is not None or user.is_node)


def _node(user: Identity, target: Target) -> None:
    if target.verb in _READS or target.resource.plural in {"pods", "events", "leases", "serviceaccounts"}:
        return
    if target.resource.plural == "nodes":
        if target.verb == "create" or target.name == user.node:
            return
        raise forbidden(
            target.resource.about(target.name),
            f'node "{user.node}" is not allowed to modify node "{target.name}"',
        )
    raise denied(user, target, "")


def admit_slice(user: Identity, target: Target, obj: Object) -> None:
    """Reject a new slice of another node, and a kubelet's slice without a node.

    Raises:
        StatusError: 403.
    """
    bound = user.node and not user.is_admin
    if bound and target.resource.plural == _SLICES and _foreign(user, obj):
        name = obj["metadata"].get("name", "")
        raise forbidden(
            target.resource.about(name),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        )


def admit_pod(user: Identity, target: Target, old: Object, new: Object | None) -> None:
    """Reject a kubelet's write to a pod of another node, or to fields that a kubelet may not set.

    Args:
        user: the writer.
        target: the pod.
        old: the stored pod.
        new: the pod after the write, None for a delete.

    Raises:
        StatusError: 403.
    """
    if not user.is_node or target.resource.storage != PODS:
        return
    about, node = target.resource.about(target.name), f'node "{user.node}"'
    if dig(old, "spec", "nodeName") != user.node:
        doing = "delete pods" if new is None else "update pod status for pods"
        raise forbidden(about, f"{node} can only {doing} with spec.nodeName set to itself")
    if new is None:
        return
    if new["metadata"].get("labels") != old["metadata"].get("labels"):
        raise forbidden(about, f"{node} cannot update labels through pod status")
    for field, said in _NOT_A_KUBELETS.items():
        if dig(new, "status", field) != dig(old, "status", field):
            raise forbidden(about, f"{node} cannot update {said}")


_NOT_A_KUBELETS = {
    "resourceClaimStatuses": "resource claim statues",  # the real server's spelling
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}


def denied(user: Identity, target: Target, reason: str) -> StatusError:
    """Return a 403 in the words of the real server."""
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {target.verb} resource "{target.what}" in API group '
        f'"{target.resource.group}" {where}'
    )
    if reason:
        why += f": node: {reason}" if user.is_node else f": {reason}"
    return forbidden(target.resource.about(target.name), why)
