"""What a call of the kubelet is about, carried with each line that is logged during it.

Every task and every thread that works for the call has the fields, the author's methods among them: they go
with the context (PEP 567). The process's log handler asks for them, so no message has to repeat them.
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
    """The fields of whatever is running."""
    return _fields.get()


def now_about(request_id: str, ref: ClaimRef) -> None:
    """The running task works on this claim, for this call of the kubelet."""
    about = {"claim_namespace": ref.namespace, "claim_name": ref.name, "claim_uid": ref.uid}
    _fields.set({"request_id": request_id, **about})


def now_for(consumers: Iterable[ConsumerReference]) -> None:
    """The claim of the running task is reserved for these pods, as the API server has it."""
    pods = [each for each in consumers if each.resource == "pods"]
    names, uids = [pod.name for pod in pods], [pod.uid for pod in pods]
    _fields.set({**_fields.get(), "pods": names, "pod_uids": uids})
