"""Failures on demand. They are lost with the process."""

import re
from typing import Final, Literal

import msgspec

__all__ = ["Fault", "Faults"]

_ERROR_STATUSES: Final = range(400, 600)


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    """A failure of the next requests that match.

    Attributes:
        path: regular expression that matches the whole path of the request.
        method: HTTP method; "": every method.
        status: HTTP status of the answer, without any work; 0: the request is carried out.
        times: number of requests that fail.
        retry_after: value of Retry-After beside the status: seconds or an HTTP date; "": none.
        lose_answer: whether the connection is cut after the work is done or the task is begun.
        task_state: what happens with the task. "lost": its URIs do not exist.
        work: whether the work of the task is done nevertheless.
    """

    path: str
    method: str = ""
    status: int = 0
    times: int = 1
    retry_after: str = ""
    lose_answer: bool = False
    task_state: Literal["", "Exception", "Cancelled", "never ends", "lost"] = ""
    work: bool = False


class Faults:
    """The failures that are still to come, oldest first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, body: object) -> None:
        """Add a failure.

        Raises:
            ValueError: the JSON object is not a valid failure.
        """
        fault = msgspec.convert(body, Fault)  # msgspec.ValidationError is a ValueError
        if fault.status and fault.status not in _ERROR_STATUSES:
            raise ValueError(f"status {fault.status}: must be between 400 and 599")
        try:
            re.compile(fault.path)
        except re.error as error:
            raise ValueError(f"path {fault.path!r}: must be a regular expression: {error}") from error
        self._faults.append(fault)

    def clear(self) -> None:
        """Forget all failures."""
        self._faults.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the failure of a request, and count the request; None: it does not fail."""
        for fault in self._faults:
            if fault.method in {"", method} and re.fullmatch(fault.path, path):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None
