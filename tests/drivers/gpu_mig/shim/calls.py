"""Counts the calls of NVML that this process makes, by their names in C."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pynvml
import pytest

__all__ = ["count_calls"]


@contextmanager
def count_calls() -> Iterator[Counter[str]]:
    """Yield the number of calls of each function, which grows until the end of the `with` block."""
    calls: Counter[str] = Counter()
    find_function = pynvml._nvmlGetFunctionPointer

    def find_counted(name: str) -> Callable[..., int]:
        function = find_function(name)

        def call(*arguments: object) -> int:
            calls[name] += 1
            answer: int = function(*arguments)
            return answer

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "_nvmlGetFunctionPointer", find_counted)
        yield calls
