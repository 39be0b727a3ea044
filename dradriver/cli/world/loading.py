"""Loading much that stays."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loading"]


@contextmanager
def loading() -> Iterator[None]:
    """What is made inside stays until the end: looking through it for garbage would be most of the work."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
