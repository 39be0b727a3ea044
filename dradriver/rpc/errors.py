"""What peers and handlers can do wrong, and the codes for it."""

from enum import IntEnum

__all__ = ["BrokenConnectionError", "BrokenStreamError", "Code", "ErrorCode", "RpcError"]


class Code(IntEnum):
    """How a call ended (gRPC, "Status codes and their use"); those that this server says."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class RpcError(Exception):
    """A handler ends its call with a status that is not OK.

    Attributes:
        code: the status.
        text: what the caller is told.
    """

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7); those that this server says."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class BrokenConnectionError(Exception):
    """The peer broke a rule after which nothing it sends can be understood: the connection ends."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class BrokenStreamError(Exception):
    """The peer broke a rule that concerns one stream: it ends, the others go on."""

    def __init__(self, stream: int, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.stream = stream
        self.code = code
