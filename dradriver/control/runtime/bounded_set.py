"""A set that forgets its oldest entries."""

from collections.abc import Collection, Iterator

__all__ = ["BoundedSet"]

_MAX_SIZE = 2048


class BoundedSet(Collection[str]):
    """The last 2048 texts that were added."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Add a text, and forget the oldest one if there are too many."""
        self._texts.pop(text, None)
        self._texts[text] = None
        if len(self._texts) > _MAX_SIZE:
            del self._texts[next(iter(self._texts))]

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
