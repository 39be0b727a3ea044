"""Hooks that make mounted files usable in a container: links, the dynamic linker's cache, and limits."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.host.hook import HookProgram

__all__ = ["make_driver_hooks", "make_link_hooks"]

_DEFAULT_LDCONFIG: Final = Path("/sbin/ldconfig")
_ENVIRONMENT: Final = ["NVIDIA_CTK_DEBUG=false"]


def make_driver_hooks(
    hook: HookProgram,
    version: str,
    links: Iterable[tuple[str, str]],
    folders: Sequence[str],
    ldconfig: Path | None,
) -> Iterator[dra.Hook]:
    """Yield the hooks that every container with a device needs. Each command is used only if it is supported.

    | command | effect in the container |
    |---|---|
    | `create-symlinks` | the links by which programs load the libraries |
    | `enable-cuda-compat` | an image with newer CUDA compatibility libraries uses them |
    | `update-ldcache` | the dynamic linker of every distribution finds the libraries, musl's too |
    | `disable-device-node-modification` | NVIDIA's programs create no device nodes |
    | `update-application-profile` | EGL and Vulkan see only the GPUs whose nodes the container has |

    Args:
        hook: the program.
        version: version of the driver.
        links: links, each as its path in the container and its target.
        folders: folders of the libraries in the container.
        ldconfig: `ldconfig` of the node; None: `update-ldcache` would fail and is left out.

    Source: `cmd/nvidia-cdi-hook` of NVIDIA's container toolkit 1.20.
    """
    yield from make_link_hooks(hook, links)
    arguments: dict[str, list[str]] = {"enable-cuda-compat": [f"--host-driver-version={version}"]}
    if folders and ldconfig is not None:
        other = [] if ldconfig == _DEFAULT_LDCONFIG else ["--ldconfig-path", str(ldconfig)]
        arguments["update-ldcache"] = [*other, *_repeat("--folder", folders)]
    arguments |= {"disable-device-node-modification": [], "update-application-profile": []}
    for command, words in arguments.items():
        if command in hook.commands:
            yield _make_hook(hook, command, words)


def make_link_hooks(hook: HookProgram, links: Iterable[tuple[str, str]]) -> Iterator[dra.Hook]:
    """Yield the hook that creates links, if there are any.

    Args:
        hook: the program.
        links: links, each as its path in the container and its target.
    """
    if words := _repeat("--link", (f"{target}::{path}" for path, target in links)):
        yield _make_hook(hook, "create-symlinks", words)


def _repeat(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _make_hook(hook: HookProgram, command: str, words: Iterable[str]) -> dra.Hook:
    return dra.Hook("createContainer", str(hook.path), [hook.path.name, command, *words], _ENVIRONMENT)
