"""Applies CDI edits to an OCI runtime configuration, as container runtimes do (Go package `pkg/cdi`).

The functions are pure, except that they look up device nodes on the host, because a CDI spec may omit the type,
numbers and permissions of a device node.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from dradriver.cluster.runtime.base import ContainerStartError
from dradriver.model.cdi import ContainerEdits, DeviceNode, Hook, Mount

__all__ = ["HostNode", "apply_edits", "read_host_node"]


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node of the host: its OCI type (`b`, `c`, `p`), numbers, permissions and owner."""

    type: str
    major: int
    minor: int
    mode: int
    uid: int
    gid: int


def read_host_node(path: str) -> HostNode:
    """Return the device node at `path`. Symbolic links are not followed, as in container runtimes.

    Raises:
        ContainerStartError: `path` does not exist, or is not a device node.
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        raise ContainerStartError(
            "CreateContainerError", f"CDI device node {path}: {error.strerror}"
        ) from error
    for kind, is_kind in (("b", stat.S_ISBLK), ("c", stat.S_ISCHR), ("p", stat.S_ISFIFO)):
        if is_kind(status.st_mode):
            return HostNode(
                kind,
                os.major(status.st_rdev),
                os.minor(status.st_rdev),
                stat.S_IMODE(status.st_mode),
                status.st_uid,
                status.st_gid,
            )
    raise ContainerStartError("CreateContainerError", f"CDI device node {path} is not a device")


def apply_edits(
    config: dict[str, Any], edits: ContainerEdits, look_up: Callable[[str], HostNode] = read_host_node
) -> None:
    """Add the edits to an OCI configuration that has `process`, `mounts` and `linux`.

    Raises:
        ContainerStartError: the edits refer to a device node that does not exist on the host.
    """
    process, linux = config["process"], config["linux"]
    # If a variable is set again, it keeps its position.
    variables = {entry.partition("=")[0]: entry for entry in [*process["env"], *edits.env]}
    process["env"] = list(variables.values())
    for node in edits.device_nodes:
        device = _build_device(node, look_up)
        linux["devices"] = [kept for kept in linux["devices"] if kept["path"] != node.path] + [device]
        if device["type"] in {"b", "c"}:
            linux["resources"]["devices"].append(_build_rule(device, node.permissions or "rwm"))
    for mount in edits.mounts:
        kept_mounts = [kept for kept in config["mounts"] if kept["destination"] != mount.container_path]
        config["mounts"] = [*kept_mounts, _build_mount(mount)]
    if edits.mounts:
        # Outer mounts come first. Otherwise, they would hide the inner mounts.
        config["mounts"].sort(key=lambda each: len(PurePosixPath(each["destination"]).parts))
    for hook in edits.hooks:
        config.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(_build_hook(hook))
    gids = process["user"].setdefault("additionalGids", [])
    gids += [gid for gid in dict.fromkeys(edits.additional_gids) if gid and gid not in gids]


def _build_device(node: DeviceNode, look_up: Callable[[str], HostNode]) -> dict[str, Any]:
    """Return the OCI device. If the spec omits values, they come from the host's device node."""
    complete = bool(node.type) and (bool(node.major) or node.type == "p")
    host = None
    if not complete or node.file_mode is None:
        host = _find_host_node(node, look_up, needed=not complete)
    device: dict[str, Any] = {
        "path": node.path,
        "type": node.type,
        "major": node.major or 0,
        "minor": node.minor or 0,
        "fileMode": node.file_mode,
        "uid": node.uid,
        "gid": node.gid,
    }
    if host is not None and node.file_mode is None:
        device["fileMode"] = host.mode
    if host is not None and not complete:
        if node.type not in {"", host.type}:
            raise ContainerStartError(
                "CreateContainerError",
                f"CDI device node {node.host_path or node.path} is of type {host.type}, not {node.type}",
            )
        device["type"] = host.type
        if not node.major and host.type != "p":
            device |= {"major": host.major, "minor": host.minor}
    return {key: value for key, value in device.items() if value is not None}


def _find_host_node(node: DeviceNode, look_up: Callable[[str], HostNode], *, needed: bool) -> HostNode | None:
    try:
        return look_up(node.host_path or node.path)
    except ContainerStartError:
        if needed:
            raise
        return None


def _build_rule(device: dict[str, Any], access: str) -> dict[str, Any]:
    return {"allow": True, **{key: device[key] for key in ("type", "major", "minor")}, "access": access}


def _build_mount(mount: Mount) -> dict[str, Any]:
    entry: dict[str, Any] = {"destination": mount.container_path, "source": mount.host_path}
    wanted = {"type": mount.type, "options": list(mount.options)}
    return entry | {key: value for key, value in wanted.items() if value}


def _build_hook(hook: Hook) -> dict[str, Any]:
    entry = {"path": hook.path, "args": list(hook.args), "env": list(hook.env), "timeout": hook.timeout}
    return {key: value for key, value in entry.items() if value not in (None, [])}
