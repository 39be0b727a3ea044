"""One HTTP request to the API server, and the size limits of answers."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["MAX_LIST_BYTES", "MAX_OBJECT_BYTES", "Request", "TooLongError", "WriteGuard"]

MAX_OBJECT_BYTES: Final = 2**24
"""Maximum size in bytes of an answer and of a line of a watch.

etcd accepts objects of 1.5 MiB, and their JSON text can be a few times larger.
"""
MAX_LIST_BYTES: Final = 2**28
"""Maximum size in bytes of a page of a list and of a container's log."""

WriteGuard: TypeAlias = Callable[[], AbstractContextManager[float]]
"""Guards one attempt of a write, which runs inside of the context.

Entering the context returns the maximum seconds of the attempt. If it raises, the write is not sent. The
context sees the error of the attempt.
"""


class TooLongError(OSError):
    """The server sent more bytes than the reader accepts.

    Args:
        what: the part of the answer that is too long.
        max_bytes: the limit in bytes.
    """

    def __init__(self, what: str, max_bytes: int) -> None:
        super().__init__(f"{what} is longer than {max_bytes / 2**20:g} MiB")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    Attributes:
        method: GET, POST, PUT, PATCH, DELETE.
        path: the URL path, already quoted.
        query: the parameters of the query; empty values are omitted.
        body: the JSON text.
        content_type: the content type of the body.
        repeatable: whether the request may be sent again even if the server may have received it.
        max_bytes: the maximum size of the answer in bytes.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False
    max_bytes: int = MAX_OBJECT_BYTES

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
