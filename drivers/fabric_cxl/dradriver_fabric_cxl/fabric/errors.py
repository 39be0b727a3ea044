"""Errors of the fabric: one class for each error that callers distinguish."""

import dradriver as dra

__all__ = [
    "AnswerLostError",
    "AttachFailedError",
    "AttachTimedOutError",
    "AuthenticationError",
    "FabricConflictError",
    "FabricError",
    "ManagerBusyError",
    "ManagerUnreachableError",
    "NoCapacityError",
    "ObjectChangedError",
    "ObjectNotFoundError",
    "RequestRefusedError",
    "TagNotKeptError",
]


class FabricError(dra.DraError):
    """The fabric manager rejected a call or failed. This class itself covers malformed answers."""


class ManagerUnreachableError(FabricError):
    """The manager cannot be reached, or does not answer. The call can be tried again."""


class AnswerLostError(ManagerUnreachableError):
    """A request was sent and its answer was lost: the manager may have executed it."""


class AuthenticationError(ManagerUnreachableError):
    """The manager rejects the user or the password. New ones may be on their way to the files."""


class ManagerBusyError(FabricError):
    """The manager cannot serve the request now (503, 429).

    Attributes:
        retry_after: seconds that the manager asks to wait; None if it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class FabricConflictError(FabricError):
    """Another request uses a resource (409). The request can be tried again."""


class NoCapacityError(FabricError):
    """The memory domain or the host's port has no room (507). The device is not bad."""


class RequestRefusedError(FabricError):
    """The manager refuses the request. Trying again does not help."""


class ObjectNotFoundError(RequestRefusedError):
    """There is no such object, domain, host or accelerator (404)."""


class ObjectChangedError(FabricError):
    """The object was changed since it was read (412)."""


class TagNotKeptError(FabricError):
    """The manager does not return the tag of an object, so that the object could not be found again."""


class AttachFailedError(FabricError):
    """The manager's task failed, and failed again."""


class AttachTimedOutError(FabricError):
    """The manager did not finish in time. Objects of the attachment may exist; `detach` removes them."""
