"""The error for bitstreams."""

import dradriver as dra

__all__ = ["BitstreamError"]


class BitstreamError(dra.DraError):
    """A bitstream is not available or not allowed. The card is not at fault.

    Attributes:
        reason: the reason as one CamelCase word, for programs.
    """

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)
