"""One HTTP request to the API server, and the size limits of answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["LONGEST_LIST", "LONGEST_OBJECT", "Request", "TooLongError"]

LONGEST_OBJECT: Final = 2**24
"""Limit in bytes of an answer and of a line of a watch. etcd accepts 1.5 MiB, which is a few times as much in
JSON.
"""
LONGEST_LIST: Final = 2**28
"""Limit in bytes of a page of a list and of a container's log."""


class TooLongError(OSError):
    """The peer sent more than the reader accepts.

    Args:
        what: the part that is too long.
        most: the limit in bytes.
    """

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} is longer than {most / 2**20:g} MiB")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    Attributes:
        method: GET, POST, PUT, PATCH, DELETE.
        path: the URL path, already quoted.
        query: the query's fields; empty values are left out.
        body: the JSON text.
        content_type: the body's type.
        repeatable: whether it may be sent again although it may have arrived.
        longest: the largest answer to accept, in bytes.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False
    longest: int = LONGEST_OBJECT

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
