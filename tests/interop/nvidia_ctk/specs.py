"""What a CDI spec of nvidia-ctk and our edits contain, in forms that can be compared."""

from typing import Any

import dradriver as dra

__all__ = [
    "DIFFERENCES",
    "our_hooks",
    "our_mounts",
    "our_nodes",
    "split_links",
    "their_hooks",
    "their_mounts",
    "their_nodes",
]

DIFFERENCES = (
    "permissions of device nodes",
    "hook `apply-cuda-memory-limits`",
    "links of EGL platform libraries",
    "paths of links in `/dev/dri/by-path`",
    "folder `/tmp/nvidia-mps`",
)
"""All differences between our edits and those of nvidia-ctk; docs/drivers/gpu-mig.md has the reasons."""


def their_nodes(edits: dict[str, Any]) -> set[tuple[str, int, int, int]]:
    assert {node["permissions"] for node in edits["deviceNodes"]} == {"rwm"}  # DIFFERENCES
    return {(n["path"], n.get("major", 0), n.get("minor", 0), n["fileMode"]) for n in edits["deviceNodes"]}


def our_nodes(edits: dra.ContainerEdits) -> set[tuple[str, int | None, int | None, int | None]]:
    assert {node.permissions for node in edits.device_nodes} == {"rw"}
    return {(node.path, node.major, node.minor, node.file_mode) for node in edits.device_nodes}


def their_hooks(edits: dict[str, Any]) -> list[tuple[Any, ...]]:
    hooks = edits.get("hooks", [])
    return [(each["hookName"], each["path"], tuple(each["args"]), tuple(each["env"])) for each in hooks]


def our_hooks(edits: dra.ContainerEdits) -> list[tuple[Any, ...]]:
    return [(each.hook_name, each.path, each.args, each.env) for each in edits.hooks]


def split_links(hooks: list[tuple[Any, ...]]) -> tuple[set[str], list[tuple[Any, ...]]]:
    """Return all links that the hooks create, and the other hooks."""
    makers = [hook for hook in hooks if hook[2][1] == "create-symlinks"]
    assert all(set(hook[2][2::2]) == {"--link"} for hook in makers)
    links = {link for hook in makers for link in hook[2][3::2]}
    return links, [hook for hook in hooks if hook not in makers]


def their_mounts(edits: dict[str, Any]) -> set[tuple[str, str, frozenset[str]]]:
    return {(m["hostPath"], m["containerPath"], frozenset(m["options"])) for m in edits["mounts"]}


def our_mounts(edits: dra.ContainerEdits) -> set[tuple[str, str, frozenset[str]]]:
    return {(m.host_path, m.container_path, frozenset(m.options)) for m in edits.mounts}
