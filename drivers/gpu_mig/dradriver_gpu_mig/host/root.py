"""Paths below a root that is not this process's own."""

from pathlib import Path
from typing import Final

__all__ = ["resolve"]

_MOST_LINKS: Final = 40  # the kernel's own limit


def resolve(root: Path, path: Path) -> Path:
    """The file that `path` means to somebody whose root is `root`: absolute links lead to below it.

    Args:
        root: the root.
        path: below it, as this process sees it.

    Returns:
        The same file without links, below `root`; what can't be resolved is returned as far as it could be.
    """
    done, todo, links = Path(), list(path.relative_to(root).parts), 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = done.parent
            continue
        here = root / done / part
        if links == _MOST_LINKS or not here.is_symlink():
            done /= part
            continue
        links += 1
        target = here.readlink()
        if target.is_absolute():
            done, target = Path(), target.relative_to("/")
        todo = [*target.parts, *todo]
    return root / done
