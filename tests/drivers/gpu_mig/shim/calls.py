"""Counts the calls of NVML that this process makes, by their names in C; makes single calls fail or hang."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pynvml
import pytest

__all__ = ["NvmlCalls", "count_calls", "intercept_calls"]


class NvmlCalls:
    """The calls of a block, and the fault of the next call with some name.

    Attributes:
        counts: the number of calls of each function.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._name = ""
        self._code = 0
        self._hanging_thread = ""
        self._released = threading.Event()
        self.is_hit = threading.Event()

    def fail_once(self, name: str, code: int) -> None:
        """The next call of a function does nothing and returns a code of NVML."""
        self._name, self._code = name, code
        self.is_hit.clear()

    def hang_once(self, name: str) -> None:
        """The next call of a function does not return until `release`."""
        self._name, self._code, self._hanging_thread = name, 0, ""
        self.is_hit.clear()
        self._released.clear()

    def is_hanging(self, thread: str) -> bool:
        """Whether a call hangs in the thread with this name, and is not released yet."""
        return self._hanging_thread == thread and not self._released.is_set()

    def release(self) -> None:
        """Let the hanging call go on, and forget a fault that no call has met."""
        self._name = ""
        self._released.set()

    def make(self, name: str, function: Callable[..., int], arguments: tuple[object, ...]) -> int:
        """Make a call, unless it is the one that fails."""
        self.counts[name] += 1
        if name == self._name:
            self._name = ""
            if self._code:
                self.is_hit.set()
                return self._code
            self._hanging_thread = threading.current_thread().name
            self.is_hit.set()
            self._released.wait()
        answer: int = function(*arguments)
        return answer


@contextmanager
def intercept_calls() -> Iterator[NvmlCalls]:
    """Yield the calls of NVML until the end of the `with` block."""
    calls = NvmlCalls()
    find_function = pynvml._nvmlGetFunctionPointer

    def find_intercepted(name: str) -> Callable[..., int]:
        function = find_function(name)
        return lambda *arguments: calls.make(name, function, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "_nvmlGetFunctionPointer", find_intercepted)
        try:
            yield calls
        finally:
            calls.release()


@contextmanager
def count_calls() -> Iterator[Counter[str]]:
    """Yield the number of calls of each function, which grows until the end of the `with` block."""
    with intercept_calls() as calls:
        yield calls.counts
