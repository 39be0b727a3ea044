"""Operator settings: YAML in `$GPU_MIG_SETTINGS`, for all nodes with exceptions by node name.

mode: dynamic
nodes:
  - names: ["old-*"]
    mode: static
"""

import enum
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
import yaml

import dradriver as dra

__all__ = ["VARIABLE", "Effect", "Host", "Mode", "Mps", "Settings", "Simulator", "Switching", "read_settings"]

_T = TypeVar("_T")

VARIABLE: Final = "GPU_MIG_SETTINGS"

Effect: TypeAlias = Literal["Ignore", "None", "NoSchedule", "NoExecute"]
"""Effect of an error on a device: `Ignore` does nothing, the others are effects of a taint."""


class Mode(enum.Enum):
    """Kind of devices that a node offers."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    WHOLE = "whole"


class Switching(enum.Enum):
    """Whether MIG may be switched on and off."""

    NEVER = "never"
    ON_DEMAND = "onDemand"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Mps(_Strict, frozen=True):
    """An MPS control daemon that runs on the node.

    Attributes:
        pipe_directory: its `CUDA_MPS_PIPE_DIRECTORY`, as the container runtime sees it.
    """

    pipe_directory: Annotated[str, msgspec.Meta(pattern="^/")] = "/tmp/nvidia-mps"  # noqa: S108 - the daemon's own default


class Host(_Strict, frozen=True):
    """Paths of the node's files. The defaults are for a driver that is installed on the node itself.

    Attributes:
        root: root of the node, as this process sees it. The MPS control daemon is looked for below it.
        driver_root: folder below which NVIDIA's driver is installed, as this process sees it.
        driver_root_on_host: the same, as the container runtime sees it.
        dev, proc, sysfs: those of the node, as this process sees them.
        cdi: folders of CDI specs, as this process sees them. The container toolkit's own spec may be there.
        hook: `nvidia-cdi-hook`, as the container runtime sees it; None: the one below `driver_root`, if any.
        library: libnvidia-ml.so.1; None: the one below `driver_root`, or the one that the dynamic linker finds.
    """

    root: str = "/"
    driver_root: str = "/"
    driver_root_on_host: str = "/"
    dev: str = "/dev"
    proc: str = "/proc"
    sysfs: str = "/sys"
    cdi: tuple[str, ...] = ("/var/run/cdi", "/etc/cdi")
    hook: str | None = None
    library: str | None = None


class Simulator(_Strict, frozen=True):
    """GPUs that are simulated on a node without a card.

    Attributes:
        models: for each GPU one name from the simulator's catalog.
        mig: whether MIG is on at first.
    """

    models: tuple[str, ...] = ("a100-40", "a100-40")
    mig: bool = True


class Settings(_Strict, frozen=True):
    """The settings of one node; `docs/drivers/gpu-mig.md` explains each.

    Attributes:
        mode: kind of devices that the node offers; None: static on real cards, dynamic on simulated ones.
        mig_switching: whether `prepare` may switch MIG on idle GPUs.
        xids: effects of single XIDs, which override the defaults.
        double_bit_ecc: effect of memory errors that were not corrected.
        recover_seconds: seconds without another error after which a device is offered again; 0: only after a
            reset.
        destroy_seconds: seconds for which one unprepare tries to destroy an instance in use.
        host: paths of the node's files.
        mps: the MPS control daemon; None: none runs.
        simulator: the simulated GPUs.
    """

    mode: Mode | None = None
    mig_switching: Switching = Switching.NEVER
    xids: Mapping[int, Effect] = {}
    double_bit_ecc: Effect = "NoExecute"
    recover_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    destroy_seconds: Annotated[float, msgspec.Meta(ge=0)] = 20.0
    host: Host = Host()
    mps: Mps | None = None
    simulator: Simulator = Simulator()


class _Exception(_Strict, frozen=True):
    names: tuple[str, ...]


def read_settings(text: str, node: str) -> Settings:
    """Return the settings of one node.

    Args:
        text: YAML; empty: all defaults.
        node: name of the node.

    Raises:
        UsageError: the text is invalid for this or any other node.
    """
    try:
        given = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise dra.UsageError(f"${VARIABLE}: not YAML: {error}") from error
    if not isinstance(given, dict):
        raise dra.UsageError(f"${VARIABLE}: must be a mapping, as `mode: dynamic`")
    exceptions = given.pop("nodes", None) or []
    chosen = _converted(given, Settings, "")
    if not isinstance(exceptions, list):
        raise dra.UsageError(f"${VARIABLE}: nodes: must be a list")
    # All exceptions are read, so that an error in one shows on every node.
    read = [_exception(given, each, index) for index, each in enumerate(exceptions)]
    matching = (settings for names, settings in read if any(fnmatchcase(node, name) for name in names))
    return next(matching, chosen)


def _exception(given: Mapping[str, object], more: object, index: int) -> tuple[tuple[str, ...], Settings]:
    where = f"nodes[{index}]"
    if not isinstance(more, dict) or "names" not in more:
        raise dra.UsageError(f"${VARIABLE}: {where}: must be a mapping with `names`")
    names = _converted({"names": more.pop("names")}, _Exception, where).names
    return names, _converted({**given, **more}, Settings, where)


def _converted(given: object, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        place = f"{where}: " if where else ""
        raise dra.UsageError(f"${VARIABLE}: {place}{error}") from error
