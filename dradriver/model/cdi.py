"""CDI specs: what the container runtime adds to a container (Container Device Interface 1.1.0).

A spec is written at the lowest version that its content needs, because runtimes reject versions that they do
not know. Source: the CDI specification, SPEC.md, "Version".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import force_setattr, replace

from dradriver.errors import Problem
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import tuples

__all__ = [
    "CdiDevice",
    "CdiSpec",
    "ContainerEdits",
    "DeviceNode",
    "Hook",
    "Mount",
    "cdi_problems",
    "is_bind_mount",
    "minimum_version",
    "spelled_out",
]

T = TypeVar("T")


class DeviceNode(Value, frozen=True):
    """A device node that the container gets.

    Attributes:
        path: path in the container.
        host_path: path on the host, if it differs.
        type: `c`, `b`, `u` or `p`; the runtime determines an empty type.
        major, minor: device numbers, if the node does not exist on the host.
        file_mode: permission bits.
        permissions: cgroup access, a combination of `r`, `w` and `m`.
        uid, gid: owner in the container.
    """

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class Mount(Value, frozen=True):
    """A mount that the container gets: `host_path` appears at `container_path`.

    Attributes:
        host_path: path on the host; it must exist when the container starts.
        container_path: path in the container.
        options: as for `mount -o`: `["ro"]`, for example.
        type: type of the file system; empty for a bind mount. A runtime accepts a bind mount only with `bind`
            or `rbind` in the options, so `rbind` is added in front if both are missing when the CDI spec is
            written.
    """

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts any iterable.
        def __init__(
            self,
            host_path: str,
            container_path: str,
            options: Iterable[str] = ...,
            type: str = ...,  # noqa: A002 - CDI's name
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples(f"mount at {self.container_path!r}", self, ("options",))


class Hook(Value, frozen=True):
    """A program that the runtime runs at one point of the container's life (OCI hook names)."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            hook_name: str,
            path: str,
            args: Iterable[str] = ...,
            env: Iterable[str] = ...,
            timeout: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples(f"hook {self.path!r}", self, ("args", "env"))


class ContainerEdits(Value, frozen=True):
    """The changes that a device makes to the container that uses it.

    Attributes:
        env: environment variables.
        device_nodes: device nodes.
        mounts: bind mounts and others.
        hooks: OCI hooks.
        additional_gids: supplementary groups (CDI 0.7).
    """

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = ()

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts a mapping for env too.
        def __init__(
            self,
            env: "Mapping[str, str] | Iterable[str]" = ...,
            device_nodes: Iterable[DeviceNode] = ...,
            mounts: Iterable[Mount] = ...,
            hooks: Iterable[Hook] = ...,
            additional_gids: Iterable[int] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn a mapping of variables into texts, and iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        if isinstance(self.env, Mapping):
            force_setattr(self, "env", tuple(f"{key}={value}" for key, value in self.env.items()))
        tuples("container edits", self, self.__struct_fields__)

    def __or__(self, other: "ContainerEdits") -> "ContainerEdits":
        """Return both edits; those of `other` come last."""
        return ContainerEdits(
            env=[*self.env, *other.env],
            device_nodes=[*self.device_nodes, *other.device_nodes],
            mounts=[*self.mounts, *other.mounts],
            hooks=[*self.hooks, *other.hooks],
            additional_gids=[*self.additional_gids, *other.additional_gids],
        )


class CdiDevice(Value, frozen=True, omit_defaults=False):
    """A named device of a spec; its CDI ID is `kind=name`."""

    name: str
    container_edits: ContainerEdits


class CdiSpec(Value, frozen=True, kw_only=True):
    """One CDI spec file."""

    cdi_version: str = ""
    kind: str
    devices: list[CdiDevice] = []
    container_edits: ContainerEdits = ContainerEdits()

    def at_minimum_version(self) -> "CdiSpec":
        """Return the same spec with the lowest `cdi_version` that its content needs."""
        return CdiSpec(
            cdi_version=minimum_version(self),
            kind=self.kind,
            devices=self.devices,
            container_edits=self.container_edits,
        )


def is_bind_mount(mount: Mount) -> bool:
    """Return whether a runtime treats the mount as a bind mount."""
    return "bind" in mount.options or "rbind" in mount.options


def spelled_out(edits: ContainerEdits) -> ContainerEdits:
    """Return the edits in the form of a CDI spec: each bind mount has `bind` or `rbind` in its options."""
    return replace(edits, mounts=[_spelled_out(mount) for mount in edits.mounts])


def _spelled_out(mount: Mount) -> Mount:
    if mount.type not in {"", "bind"} or is_bind_mount(mount):
        return mount
    return replace(mount, options=["rbind", *mount.options])


def minimum_version(spec: CdiSpec) -> str:
    """Return the lowest CDI version that knows everything in the spec."""
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    if any(edit.additional_gids for edit in edits):
        return "0.7.0"
    if "." in spec.kind.partition("/")[2]:
        return "0.6.0"
    if any(node.host_path for edit in edits for node in edit.device_nodes):
        return "0.5.0"
    if any(device.name[:1].isdigit() for device in spec.devices):
        return "0.5.0"
    if any(mount.type for edit in edits for mount in edit.mounts):
        return "0.4.0"
    return "0.3.0"


_HOOKS: Final = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_VENDOR: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_CLASS: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]")
_DEVICE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def cdi_problems(spec: CdiSpec) -> Iterator[Problem]:
    """Yield the broken rules of a spec: kind, device names, and edits that no runtime can apply."""
    vendor, _, kind_class = spec.kind.partition("/")
    # Names of one letter are legal, but some runtimes' CDI code panics on them.
    if not _VENDOR.fullmatch(vendor) or not _CLASS.fullmatch(kind_class):
        yield Problem(
            "kind", f"{spec.kind!r} is not vendor/class of letters, digits, '_', '-' (and '.' in the vendor)"
        )
    if not spec.devices:
        yield Problem("devices", "at least one device is required")
    yield from edits_problems(spec.container_edits, "containerEdits")
    for index, device in enumerate(spec.devices):
        if not _DEVICE.fullmatch(device.name):
            yield Problem(
                f"devices[{index}].name", f"{device.name!r} must be letters, digits and '_.:-' between them"
            )
        yield from edits_problems(device.container_edits, f"devices[{index}].containerEdits")


def edits_problems(edits: ContainerEdits, where: str) -> Iterator[Problem]:
    """Yield the broken rules of container edits, at the path `where`."""
    yield from _each(edits.env, _variable, f"{where}.env")
    yield from _each(edits.device_nodes, _device_node, f"{where}.deviceNodes")
    yield from _each(edits.mounts, _mount, f"{where}.mounts")
    yield from _each(edits.hooks, _hook, f"{where}.hooks")


def _each(items: Iterable[T], rule: Callable[[T], Iterator[Problem]], where: str) -> Iterator[Problem]:
    for index, item in enumerate(items):
        yield from (problem.under(f"{where}[{index}]") for problem in rule(item))


def _variable(variable: str) -> Iterator[Problem]:
    name, equals, _ = variable.partition("=")
    if not equals or not name:
        yield Problem("", f"{variable!r} is not NAME=VALUE")


def _device_node(node: DeviceNode) -> Iterator[Problem]:
    yield from _absolute("path", node.path)
    if node.type not in {"", "b", "c", "u", "p"}:
        yield Problem("type", f"{node.type!r} is not one of b, c, u, p")
    if not set(node.permissions) <= set("rwm"):
        yield Problem("permissions", f"{node.permissions!r} has more than r, w, m")


def _mount(mount: Mount) -> Iterator[Problem]:
    yield from _absolute("containerPath", mount.container_path)
    if not mount.host_path:
        yield Problem("hostPath", "a host path is required")


def _hook(hook: Hook) -> Iterator[Problem]:
    if hook.hook_name not in _HOOKS:
        yield Problem("hookName", f"{hook.hook_name!r} is not one of {', '.join(sorted(_HOOKS))}")
    yield from _absolute("path", hook.path)
    yield from _each(hook.env, _variable, "env")


def _absolute(field: str, path: str) -> Iterator[Problem]:
    if not path.startswith("/"):
        yield Problem(field, f"{path!r} is not an absolute path")
