"""Why there is no bitstream."""

import dradriver as dra

__all__ = ["BitstreamError"]


class BitstreamError(dra.DraError):
    """A bitstream can't be had, or must not be used; no card is at fault.

    Attributes:
        reason: one CamelCase word for programs.
    """

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)
