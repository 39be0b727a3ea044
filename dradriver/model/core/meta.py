"""What every API object carries: type, name, labels, owners."""

from datetime import datetime

from dradriver.model.encoding.codec import Value

__all__ = ["Condition", "ObjectMeta", "ObjectReference", "OwnerReference"]


class OwnerReference(Value, frozen=True, kw_only=True):
    """An object whose deletion deletes this one (`metav1.OwnerReference`)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True, kw_only=True):
    """`metav1.ObjectMeta`, the part that this project reads or writes."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ObjectReference(Value, frozen=True, kw_only=True):
    """`v1.ObjectReference`: what an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Condition(Value, frozen=True, kw_only=True, omit_defaults=False):
    """`metav1.Condition`: one named observation with its status.

    Attributes:
        type: the condition's name.
        status: `True`, `False` or `Unknown`.
        reason: a CamelCase word for programs.
        message: a sentence for people.
        last_transition_time: when `status` last changed.
        observed_generation: the generation it was observed at.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0
