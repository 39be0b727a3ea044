"""Resolves paths below a root that is not the root of this process."""

from pathlib import Path
from typing import Final

__all__ = ["resolve"]

_MOST_LINKS: Final = 40  # the kernel's own limit


def resolve(root: Path, path: Path) -> Path:
    """Return the file that `path` means to a process whose root is `root`. Absolute links stay below `root`.

    Args:
        root: the other root, as this process sees it.
        path: a path below it, as this process sees it.

    Returns:
        The same file without links, below `root`. A path that cannot be resolved is returned as far as
        possible.
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
