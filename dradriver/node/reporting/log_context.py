"""Add the claim of a kubelet's call, as fields, to each line that is logged during the call.

The fields are context variables (PEP 567). So every task and thread that works for the call has them, including
the author's methods. The log handler of the process reads the fields, so messages need not repeat them.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, TypeAlias

from dradriver.model.resource.claim import ConsumerReference
from dradriver.node.state.records import ClaimRef

__all__ = ["Fields", "bind_claim", "bind_pods", "log_fields"]

Fields: TypeAlias = Mapping[str, str | list[str]]

_NO_FIELDS: Final[Fields] = MappingProxyType({})

_fields: ContextVar[Fields] = ContextVar("fields of the log", default=_NO_FIELDS)


def log_fields() -> Fields:
    """Return the log fields of the current task or thread."""
    return _fields.get()


def bind_claim(request_id: str, ref: ClaimRef) -> None:
    """Set the log fields of the current task to a claim and the ID of the kubelet's call."""
    claim = {"claim_namespace": ref.namespace, "claim_name": ref.name, "claim_uid": ref.uid}
    _fields.set({"request_id": request_id, **claim})


def bind_pods(consumers: Iterable[ConsumerReference]) -> None:
    """Add a claim's consumer pods to the log fields of the current task."""
    pods = [consumer for consumer in consumers if consumer.resource == "pods"]
    names, uids = [pod.name for pod in pods], [pod.uid for pod in pods]
    _fields.set({**_fields.get(), "pods": names, "pod_uids": uids})
