"""The metadata of API objects: name, labels, owners and conditions."""

from datetime import datetime

from dradriver.model.encoding.codec import Value

__all__ = ["Condition", "ObjectMeta", "ObjectReference", "OwnerReference"]


class OwnerReference(Value, frozen=True, kw_only=True):
    """A reference to an owner. If the owner is deleted, the object is deleted too (`metav1.OwnerReference`)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True, kw_only=True):
    """The fields of `metav1.ObjectMeta` that this project reads or writes."""

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
        """Return the owner that is the object's controller, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ObjectReference(Value, frozen=True, kw_only=True):
    """`v1.ObjectReference`: the object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Condition(Value, frozen=True, kw_only=True, omit_defaults=False):
    """`metav1.Condition`: one named observation with its status.

    Attributes:
        type: the type, which names the condition.
        status: `True`, `False` or `Unknown`.
        reason: a CamelCase word for programs.
        message: a sentence for users.
        last_transition_time: time at which `status` last changed.
        observed_generation: the generation of the object at which the condition was observed.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0
