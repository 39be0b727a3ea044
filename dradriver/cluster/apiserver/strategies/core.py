# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategies of namespaces, nodes, events, leases, config maps and secrets."""

import base64
from ipaddress import ip_network

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies.base import Context, PathNamed, Strategy, keep, set_defaults
from dradriver.cluster.apiserver.validation.field import Causes, forbidden, invalid, required
from dradriver.cluster.apiserver.validation.names import check_label, check_label_name


class NamespaceStrategy(Strategy):
    """Namespaces: the name is also a label, and a finalizer in the spec keeps a namespace until it is empty."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return check_label(name)

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        new = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        keep(obj, old or new, "spec", "status")
        metadata = obj["metadata"]
        if metadata.get("name"):  # without a name, validation rejects it
            metadata["labels"] = {
                **(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]
            }  # fmt: skip


class NodeStrategy(Strategy):
    """Nodes: status and spec are written separately.

    A status write may change labels, because the kubelet does this.
    """

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        obj.setdefault("spec", {})
        if old is not None:
            keep(obj, old, "status")
            return
        obj.setdefault("status", {})
        set_defaults(obj["status"], {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}})
        self._allocatable(obj)

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "spec")
        self._allocatable(obj)

    @staticmethod
    def _allocatable(obj: Object) -> None:
        status = obj.get("status") or {}
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        causes: Causes = []
        for index, taint in enumerate(dig(obj, "spec", "taints") or ()):
            causes += check_label_name(taint.get("key", ""), f"spec.taints[{index}].key")
            if taint.get("effect") not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
                causes.append(required(f"spec.taints[{index}].effect"))
        for index, text in enumerate(dig(obj, "spec", "podCIDRs") or ()):
            try:
                ip_network(text)
            except ValueError:
                causes.append(
                    invalid(
                        f"spec.podCIDRs[{index}]",
                        text,
                        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                    )
                )
        return causes


def _check_immutable(obj: Object, old: Object | None, *fields: str) -> Causes:
    """Check that an object does not change if it is marked as immutable."""
    if old is None or not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    return [forbidden(each, detail) for each in ("immutable", *fields) if obj.get(each) != old.get(each)]


class ConfigMapStrategy(Strategy):
    """Config maps: an immutable config map never changes."""

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return _check_immutable(obj, old, "data", "binaryData")


class LeaseStrategy(Strategy):
    """Leases: the duration is positive, and the number of transitions is not negative."""

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        seconds, transitions = dig(obj, "spec", "leaseDurationSeconds"), dig(obj, "spec", "leaseTransitions")
        causes: Causes = []
        if seconds is not None and seconds <= 0:
            causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            causes.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return causes


class EventStrategy(PathNamed):
    """Events must be in the namespace of their object.

    Events of cluster-scoped objects must be in `default` or `kube-system`.
    """

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        if old is not None:
            return []
        involved = dig(obj, "involvedObject", "namespace") or ""
        namespace = obj["metadata"].get("namespace", "")
        if namespace not in ({involved} if involved else {"default", "kube-system"}):
            return [invalid("involvedObject.namespace", involved, "does not match event.namespace")]
        return []


class SecretStrategy(Strategy):
    """Secrets: `stringData` is merged into `data` and never returned."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        set_defaults(obj, {"type": "Opaque"})
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        if old is not None and obj.get("type") != old.get("type"):
            return [invalid("type", obj.get("type"), "field is immutable")]
        return _check_immutable(obj, old, "data")
