"""What the emulated fabric contains, and how its manager answers."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Answers", "EmulatorSettings"]


class Answers(StrEnum):
    """How the manager answers a request that creates or deletes a chunk or a connection."""

    TASK = "task"
    """202 with a task."""
    CREATED = "created"
    """201 with the new object, or 204 for a deletion, once the work is done."""
    OK = "ok"
    """200 with the new object and without Location, or 200 for a deletion, once the work is done."""
    NO_CONTENT = "no-content"
    """204 with Location, or 204 for a deletion, once the work is done."""


@dataclass(frozen=True)
class EmulatorSettings:
    """The emulated fabric.

    Attributes:
        domain_mib: MiB of each memory domain. The domains are `domain-1`, `domain-2` and so on.
        minimum_mib: MiB of the smallest chunk.
        increment_mib: the size of a chunk is a multiple of these MiB.
        hosts: number of hosts. The hosts are `host-1`, `host-2` and so on.
        host_attachments: number of connections that a host can have.
        accelerator: whether the fabric has the accelerator endpoint.
        latency: seconds that the work of each request takes.
        retry_after: value of Retry-After beside a task: seconds or an HTTP date.
        answers: how the manager answers requests for work.
        keeps_names: whether a new object has the `Name` and `Description` of its request.
        session_seconds: seconds after which an unused session ends.
    """

    domain_mib: tuple[int, ...] = (65536, 65536)
    minimum_mib: int = 256
    increment_mib: int = 256
    hosts: int = 4
    host_attachments: int = 4
    accelerator: bool = True
    latency: float = 0.0
    retry_after: str = "1"
    answers: Answers = Answers.TASK
    keeps_names: bool = True
    session_seconds: float = 1800.0
