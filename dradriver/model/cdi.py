"""CDI specs: they describe what the container runtime adds to a container (Container Device Interface 1.1.0).

A spec is written with the lowest version that its content requires, because runtimes reject unknown versions.
Source: the CDI specification, SPEC.md, "Version".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import force_setattr, replace

from dradriver.errors import Problem
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import convert_to_tuples

__all__ = [
    "CdiDevice",
    "CdiSpec",
    "ContainerEdits",
    "DeviceNode",
    "Hook",
    "Mount",
    "add_bind_options",
    "cdi_problems",
    "is_bind_mount",
    "minimum_version",
]

T = TypeVar("T")


class DeviceNode(Value, frozen=True):
    """A device node that is added to the container.

    Attributes:
        path: path in the container.
        host_path: path on the host, if it differs from `path`.
        type: `c`, `b`, `u` or `p`. If it is empty, the runtime determines the type.
        major, minor: device numbers, if the node does not exist on the host.
        file_mode: permission bits of the node in the container.
        permissions: the access that the cgroup allows: a combination of `r`, `w` and `m`.
        uid, gid: owner of the node in the container.
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
    """A mount that is added to the container: `host_path` is mounted at `container_path`.

    Attributes:
        host_path: path on the host. It must exist when the container starts.
        container_path: path in the container.
        options: the options, as for `mount -o`. Example: `["ro"]`.
        type: type of the file system; empty for a bind mount. Runtimes accept a bind mount only if its options
            contain `bind` or `rbind`. If both are missing, `rbind` is inserted as the first option when the CDI
            spec is written.
    """

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ accepts any iterable.
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
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples(f"mount at {self.container_path!r}", self, ("options",))


class Hook(Value, frozen=True):
    """A program that the runtime runs at one point of the container's lifecycle, given by an OCI hook name."""

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
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples(f"hook {self.path!r}", self, ("args", "env"))


class ContainerEdits(Value, frozen=True):
    """The changes that are made to a container that uses a device.

    Attributes:
        env: environment variables.
        device_nodes: device nodes.
        mounts: bind mounts and other mounts.
        hooks: OCI hooks.
        additional_gids: supplementary groups (CDI 0.7).
    """

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = ()

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ also accepts a mapping.
        def __init__(
            self,
            env: "Mapping[str, str] | Iterable[str]" = ...,
            device_nodes: Iterable[DeviceNode] = ...,
            mounts: Iterable[Mount] = ...,
            hooks: Iterable[Hook] = ...,
            additional_gids: Iterable[int] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn a mapping of variables into `NAME=value` texts, and iterables into tuples.

        Raises:
            TypeError: a field is not a list. The message names the field.
        """
        if isinstance(self.env, Mapping):
            force_setattr(self, "env", tuple(f"{key}={value}" for key, value in self.env.items()))
        convert_to_tuples("container edits", self, self.__struct_fields__)

    def __or__(self, other: "ContainerEdits") -> "ContainerEdits":
        """Return the edits of both. The edits of `other` come last."""
        return ContainerEdits(
            env=[*self.env, *other.env],
            device_nodes=[*self.device_nodes, *other.device_nodes],
            mounts=[*self.mounts, *other.mounts],
            hooks=[*self.hooks, *other.hooks],
            additional_gids=[*self.additional_gids, *other.additional_gids],
        )


class CdiDevice(Value, frozen=True, omit_defaults=False):
    """A named device of a CDI spec. Its CDI ID is `kind=name`."""

    name: str
    container_edits: ContainerEdits


class CdiSpec(Value, frozen=True, kw_only=True):
    """One CDI spec file."""

    cdi_version: str = ""
    kind: str
    devices: list[CdiDevice] = []
    container_edits: ContainerEdits = ContainerEdits()

    def at_minimum_version(self) -> "CdiSpec":
        """Return the spec with the lowest `cdi_version` that its content requires."""
        return CdiSpec(
            cdi_version=minimum_version(self),
            kind=self.kind,
            devices=self.devices,
            container_edits=self.container_edits,
        )


def is_bind_mount(mount: Mount) -> bool:
    """Return whether a runtime treats the mount as a bind mount."""
    return "bind" in mount.options or "rbind" in mount.options


def add_bind_options(edits: ContainerEdits) -> ContainerEdits:
    """Return the edits as CDI specs require them: each bind mount has the option `bind` or `rbind`."""
    return replace(edits, mounts=[_add_bind_option(mount) for mount in edits.mounts])


def _add_bind_option(mount: Mount) -> Mount:
    if mount.type not in {"", "bind"} or is_bind_mount(mount):
        return mount
    return replace(mount, options=["rbind", *mount.options])


def minimum_version(spec: CdiSpec) -> str:
    """Return the lowest CDI version that defines all fields of the spec."""
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
    # Names of one letter are legal, but the CDI code of some runtimes panics on them.
    if not _VENDOR.fullmatch(vendor) or not _CLASS.fullmatch(kind_class):
        yield Problem(
            "kind", f"{spec.kind!r} must be vendor/class with letters, digits, '_', '-' (and '.' in the vendor)"
        )
    if not spec.devices:
        yield Problem("devices", "at least one device is required")
    yield from edits_problems(spec.container_edits, "containerEdits")
    for index, device in enumerate(spec.devices):
        if not _DEVICE.fullmatch(device.name):
            yield Problem(
                f"devices[{index}].name",
                f"{device.name!r} must be letters, digits and '_.:-', with a letter or digit at both ends",
            )
        yield from edits_problems(device.container_edits, f"devices[{index}].containerEdits")


def edits_problems(edits: ContainerEdits, where: str) -> Iterator[Problem]:
    """Yield the broken rules of container edits. `where` is the path of the edits in messages."""
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
        yield Problem("", f"{variable!r} must be NAME=VALUE")


def _device_node(node: DeviceNode) -> Iterator[Problem]:
    yield from _absolute("path", node.path)
    if node.type not in {"", "b", "c", "u", "p"}:
        yield Problem("type", f"{node.type!r} must be one of b, c, u, p")
    if not set(node.permissions) <= set("rwm"):
        yield Problem("permissions", f"{node.permissions!r} must be a combination of r, w, m")


def _mount(mount: Mount) -> Iterator[Problem]:
    yield from _absolute("containerPath", mount.container_path)
    if not mount.host_path:
        yield Problem("hostPath", "is required")


def _hook(hook: Hook) -> Iterator[Problem]:
    if hook.hook_name not in _HOOKS:
        yield Problem("hookName", f"{hook.hook_name!r} must be one of {', '.join(sorted(_HOOKS))}")
    yield from _absolute("path", hook.path)
    yield from _each(hook.env, _variable, "env")


def _absolute(field: str, path: str) -> Iterator[Problem]:
    if not path.startswith("/"):
        yield Problem(field, f"{path!r} must be an absolute path")
