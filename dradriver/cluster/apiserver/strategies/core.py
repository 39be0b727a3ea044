# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Namespaces, nodes, events, leases, config maps, secrets."""

import base64
from ipaddress import ip_network

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies.base import Context, PathNamed, Strategy, default, keep
from dradriver.cluster.apiserver.validation.field import Causes, forbidden, invalid, required
from dradriver.cluster.apiserver.validation.names import label, label_name, subdomain


class NamespaceStrategy(Strategy):
    """Namespaces: the name is also a label, and a finalizer in the spec holds them until they are empty."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return label(name)

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        self._label(obj)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "spec", "status")
        self._label(obj)

    @staticmethod
    def _label(obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):  # without a name, validation rejects it
            metadata["labels"] = {
                **(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]
            }  # fmt: skip


class NodeStrategy(Strategy):
    """Nodes: status and spec are written separately.

    A status write may change labels, as the kubelet's does.
    """

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {})
        default(obj["status"], {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}})
        self._allocatable(obj)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "status")
        obj.setdefault("spec", {})

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "spec")
        self._allocatable(obj)

    @staticmethod
    def _allocatable(obj: Object) -> None:
        status = obj.get("status") or {}
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        causes: Causes = []
        for index, taint in enumerate(dig(obj, "spec", "taints") or ()):
            causes += label_name(taint.get("key", ""), f"spec.taints[{index}].key")
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

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return self.validate_create(context, obj)


def _unchanged(obj: Object, old: Object, *fields: str) -> Causes:
    """Check that an object that is marked as immutable does not change."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    return [forbidden(each, detail) for each in ("immutable", *fields) if obj.get(each) != old.get(each)]


class ConfigMapStrategy(Strategy):
    """Config maps: an immutable one never changes."""

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return _unchanged(obj, old, "data", "binaryData")


class LeaseStrategy(Strategy):
    """Leases: the duration is positive, and the number of transitions is not negative."""

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        seconds, transitions = dig(obj, "spec", "leaseDurationSeconds"), dig(obj, "spec", "leaseTransitions")
        causes: Causes = []
        if seconds is not None and seconds <= 0:
            causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            causes.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return causes

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return self.validate_create(context, obj)


class EventStrategy(PathNamed):
    """Events are in their object's namespace. Those of cluster-wide objects are in `default`."""

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        involved = dig(obj, "involvedObject", "namespace") or ""
        namespace = obj["metadata"].get("namespace", "")
        if namespace not in ({involved} if involved else {"default", "kube-system"}):
            return [invalid("involvedObject.namespace", involved, "does not match event.namespace")]
        return []


class SecretStrategy(Strategy):
    """Secrets: `stringData` is written into `data` and never read back."""

    def check_name(self, name: str) -> list[str]:
        """See `Strategy`."""
        return subdomain(name)

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        default(obj, {"type": "Opaque"})
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        self.prepare_create(context, obj)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        if obj.get("type") != old.get("type"):
            return [invalid("type", obj.get("type"), "field is immutable")]
        return _unchanged(obj, old, "data")
