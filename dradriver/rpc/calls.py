"""What has come of a call, and what is wrong with it ("Length-Prefixed-Message" of gRPC over HTTP/2)."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dradriver.rpc.errors import Code
from dradriver.rpc.fields import RequestHead
from dradriver.rpc.outgoing import PREFIX, Answer
from dradriver.rpc.settings import MAX_MESSAGE

__all__ = ["TOO_LONG", "Call", "Fault"]

Fault: TypeAlias = tuple[Code, str]
"""What the caller is told instead of an answer."""

TOO_LONG: Final[Fault] = (Code.RESOURCE_EXHAUSTED, f"a message has {MAX_MESSAGE} bytes at most")


@dataclass(slots=True)
class Call:
    """A call, and its answer.

    Attributes:
        head: what it says of itself.
        answer: what is said on its stream.
        body: what has come of its one message, the prefix included; empty once it is `asked`.
        asked: whether the whole request has come.
    """

    head: RequestHead
    answer: Answer
    body: bytearray = field(default_factory=bytearray)
    asked: bool = False

    @property
    def stream(self) -> int:
        """Where it takes place."""
        return self.answer.stream

    @property
    def announced(self) -> int:
        """Bytes of the message, as its prefix says; 0 while that is not whole."""
        return int(PREFIX.unpack_from(self.body)[1]) if len(self.body) >= PREFIX.size else 0

    def fault(self) -> Fault | None:
        """What is wrong with a body that is whole: it should be one message (gRPC, `statuscodes.md`)."""
        size, announced = len(self.body) - PREFIX.size, self.announced
        if size == announced and not self.body[0]:
            return None
        if not self.body:
            return Code.UNIMPLEMENTED, "the request has no message"
        if announced > MAX_MESSAGE:
            return TOO_LONG
        if size < announced:
            return Code.INTERNAL, "the request's message is cut off"
        if size > announced:
            return Code.UNIMPLEMENTED, "the request has more than one message"
        if self.head.encoding == b"identity":
            return Code.INTERNAL, "the request's message is compressed, but grpc-encoding does not say how"
        return Code.UNIMPLEMENTED, "compressed messages are not read: grpc-encoding must be identity"
