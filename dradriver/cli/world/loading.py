"""Loads many objects that stay in memory."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loading"]


@contextmanager
def loading() -> Iterator[None]:
    """Suspend garbage collection inside the block, and freeze the objects created there at its end.

    They stay until the process ends, so scanning them would be most of the work.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
