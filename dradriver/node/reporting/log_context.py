"""The subject of a kubelet's call, as fields of each line that is logged during the call.

Every task and thread that works for the call has the fields, including the author's methods: they are part of
the context (PEP 567). The process's log handler reads them, so no message has to repeat them.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, TypeAlias

from dradriver.model.resource.claim import ConsumerReference
from dradriver.node.state.records import ClaimRef

__all__ = ["Fields", "log_fields", "now_about", "now_for"]

Fields: TypeAlias = Mapping[str, str | list[str]]

_NOTHING: Final[Fields] = MappingProxyType({})

_fields: ContextVar[Fields] = ContextVar("fields of the log", default=_NOTHING)


def log_fields() -> Fields:
    """Return the fields of the running task or thread."""
    return _fields.get()


def now_about(request_id: str, ref: ClaimRef) -> None:
    """Set the fields of the running task: a claim, and the ID of the kubelet's call."""
    about = {"claim_namespace": ref.namespace, "claim_name": ref.name, "claim_uid": ref.uid}
    _fields.set({"request_id": request_id, **about})


def now_for(consumers: Iterable[ConsumerReference]) -> None:
    """Add the pods for which the running task's claim is reserved in the API server."""
    pods = [each for each in consumers if each.resource == "pods"]
    names, uids = [pod.name for pod in pods], [pod.uid for pod in pods]
    _fields.set({**_fields.get(), "pods": names, "pod_uids": uids})
