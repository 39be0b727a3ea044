"""CDI edits on an OCI runtime configuration, as the CDI specification tells container runtimes to apply them.

Pure but for one thing: device nodes are looked up on the host, since a spec may leave out what the host knows.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dradriver.cluster.runtime.base import ContainerStartError
from dradriver.model.cdi import ContainerEdits, DeviceNode, Hook, Mount

__all__ = ["HostNode", "apply_edits", "host_node"]

_MODE: Final = 0o666


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node of the host: its OCI type (`b`, `c`, `p`), numbers, permissions and owner."""

    type: str
    major: int
    minor: int
    mode: int
    uid: int
    gid: int


def host_node(path: str) -> HostNode:
    """The device node at `path`.

    Raises:
        ContainerStartError: it is not there, or it is no device node.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - st_rdev
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
    config: dict[str, Any], edits: ContainerEdits, look_up: Callable[[str], HostNode] = host_node
) -> None:
    """Adds the edits to an OCI configuration that has `process`, `mounts` and `linux`.

    Raises:
        ContainerStartError: a device node that the edits rely on is not on the host.
    """
    process, linux = config["process"], config["linux"]
    for entry in edits.env:
        name = entry.partition("=")[0]
        process["env"] = [kept for kept in process["env"] if not kept.startswith(f"{name}=")] + [entry]
    for node in edits.device_nodes:
        device, rule = _device(node, look_up)
        linux["devices"] = [kept for kept in linux["devices"] if kept["path"] != node.path] + [device]
        linux["resources"]["devices"].append(rule)
    config["mounts"] += [_mount(mount) for mount in edits.mounts]
    for hook in edits.hooks:
        config.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(_hook(hook))
    gids = process["user"].setdefault("additionalGids", [])
    gids += [gid for gid in dict.fromkeys(edits.additional_gids) if gid and gid not in gids]


def _device(node: DeviceNode, look_up: Callable[[str], HostNode]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The OCI device and its cgroup rule; what the spec leaves out comes from the host's node."""
    complete = bool(node.type) and (node.major is not None or node.type == "p")
    host = None if complete else look_up(node.host_path or node.path)
    kind = node.type or (host.type if host else "c")
    major = node.major if node.major is not None else (host.major if host else 0)
    minor = node.minor if node.minor is not None else (host.minor if host else 0)
    device = {
        "path": node.path,
        "type": kind,
        "major": major,
        "minor": minor,
        "fileMode": node.file_mode or _MODE,
        "uid": node.uid or 0,
        "gid": node.gid or 0,
    }
    rule = {"allow": True, "type": kind, "major": major, "minor": minor, "access": node.permissions or "rwm"}
    return device, rule


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "destination": mount.container_path,
        "source": mount.host_path,
        "type": mount.type or "bind",
        "options": mount.options or ["rbind", "rprivate"],
    }


def _hook(hook: Hook) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": hook.path, "args": hook.args or [hook.path], "env": hook.env}
    if hook.timeout is not None:
        entry["timeout"] = hook.timeout
    return entry
