"""Hooks of NVIDIA's container toolkit, for nodes on which it is installed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.container.files import library_links
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["library_hooks"]

_EXTRA_LINKS: Final = {"libcuda.so.": "libcuda.so", "libnvidia-opticalflow.so.": "libnvidia-opticalflow.so"}
"""Links such as `libcuda.so` that belong to the development files. Some programs load them by mistake."""


def library_hooks(host: HostPaths, hook: Path, libraries: list[Path]) -> Iterator[dra.Hook]:
    """Yield the hooks that make mounted libraries known to the container's dynamic linker. Blocking.

    Only hooks that every version of the toolkit has are used, because an unknown hook keeps the container from
    starting. The other hooks are part of the toolkit's own spec.
    """
    if not libraries:
        return
    links = sorted(
        {f"{target}::/{path.relative_to(host.driver_root)}" for path, target in _links(host, libraries)}
    )
    folders = list(dict.fromkeys(f"/{library.parent.relative_to(host.driver_root)}" for library in libraries))
    yield _hook(hook, "create-symlinks", "--link", links)
    yield _hook(hook, "update-ldcache", "--folder", folders)


def _links(host: HostPaths, libraries: list[Path]) -> Iterator[tuple[Path, str]]:
    for path, _ in library_links(host, libraries):
        yield path, path.readlink().name
    for library in libraries:
        for prefix, name in _EXTRA_LINKS.items():
            if library.name.startswith(prefix):
                yield library.parent / name, f"{name}.1"


def _hook(hook: Path, name: str, option: str, values: Iterable[str]) -> dra.Hook:
    arguments = [hook.name, name, *(part for value in values for part in (option, value))]
    return dra.Hook("createContainer", str(hook), arguments)
