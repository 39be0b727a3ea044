"""Operator settings: YAML in `$GPU_MIG_SETTINGS`. They apply to all nodes, with exceptions by node name.

In this example, nodes whose names start with `old-` use the mode `static`, and all others use `dynamic`:

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

__all__ = [
    "VARIABLE",
    "Effect",
    "GpuSettings",
    "HostSettings",
    "MigSwitching",
    "Mode",
    "MpsSettings",
    "RecoveryName",
    "Shares",
    "SimulatorSettings",
    "read_settings",
]

_T = TypeVar("_T")

VARIABLE: Final = "GPU_MIG_SETTINGS"

_MIB: Final = 1 << 20

Effect: TypeAlias = Literal["Ignore", "None", "NoSchedule", "NoExecute"]
"""Effect of an error on a device: `Ignore` does nothing; the other values are effects of a taint."""

Shares: TypeAlias = Literal["disabled", "memory", "unlimited"] | Annotated[int, msgspec.Meta(ge=1)]
"""Whether several claims may have a device; a number is the maximum number of claims."""

RecoveryName: TypeAlias = Literal[
    "gpu-reset",
    "node-reboot",
    "drain-p2p",
    "drain-and-reset",
    "recover-imex-domain",
    "bus-reset",
    "system-reboot",
    "unknown",
]
"""What a GPU says must be done, as in the value of its taint."""


class Mode(enum.Enum):
    """Kind of devices that a node offers."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    WHOLE = "whole"


class MigSwitching(enum.Enum):
    """Whether MIG may be switched on and off."""

    NEVER = "never"
    ON_DEMAND = "onDemand"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class MpsSettings(_Strict, frozen=True):
    """MPS control daemons, one for each claim that requests MPS.

    Attributes:
        start_seconds: seconds within which a daemon must answer after its start.
        quit_seconds: seconds for which a daemon may wait for its clients when its claim ends.
        shared_memory: size of the claim's `/dev/shm`, as a quantity.
        node_process: PID, as this process sees it, of a process of the node in whose mount namespace the
            daemons run.
        cgroup: folder of the node's cgroup hierarchy (version 2), as the node sees it.
    """

    start_seconds: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    quit_seconds: Annotated[float, msgspec.Meta(ge=0)] = 10.0
    shared_memory: str = "64Mi"
    node_process: Annotated[int, msgspec.Meta(ge=1)] = 1
    cgroup: Annotated[str, msgspec.Meta(pattern="^/")] = "/sys/fs/cgroup"

    def __post_init__(self) -> None:
        if int(dra.Quantity(self.shared_memory)) < _MIB:
            raise ValueError("sharedMemory: must be at least 1Mi")


class HostSettings(_Strict, frozen=True):
    """Paths of the node's files. The defaults are for a driver that is installed on the node itself.

    Attributes:
        root: root of the node, as this process sees it. The driver searches for the container toolkit and
            `ldconfig` below this folder.
        driver_root: folder below which NVIDIA's driver is installed, as this process sees it.
        driver_root_on_host: the same folder, as the container runtime sees it.
        dev, proc, sysfs: the node's folders /dev, /proc and /sys, as this process sees them.
        cdi: folders of CDI specs, as this process sees them. The container toolkit's own spec may be there.
        hook: `nvidia-cdi-hook`, as the container runtime sees it; None: the hook that the driver ships, else
            one that is installed below `driver_root` or on the node.
        library: libnvidia-ml.so.1; None: the library below `driver_root`, or the library that the dynamic
            linker finds.
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


class SimulatorSettings(_Strict, frozen=True):
    """GPUs that are simulated on a node without a card.

    Attributes:
        models: the model of each GPU, as a name in the simulator's catalog.
        mig: whether MIG is initially on.
    """

    models: tuple[str, ...] = ("a100-40", "a100-40")
    mig: bool = True


class GpuSettings(_Strict, frozen=True):
    """The settings of one node; `docs/drivers/gpu-mig.md` explains each setting.

    Attributes:
        mode: kind of devices that the node offers; None: static on real cards, dynamic on simulated cards.
        mig_switching: whether `prepare` may turn MIG on or off on idle GPUs.
        passthrough: whether whole GPUs are also offered to virtual machines.
        xids: effects of individual XIDs, which override the default effects.
        double_bit_ecc: effect of memory errors that were not corrected; None: the default effect.
        recovery_actions: effects of individual recovery actions, which override the default effects.
        recover_seconds: seconds without another error after which a device is offered again; 0: the device is
            offered again only after a reset.
        destroy_seconds: seconds for which one unprepare tries to destroy an instance in use.
        call_seconds: time limit of one call of NVML. A GPU that exceeds it does not answer.
        close_when_idle: whether NVML is closed while it is not used, in the modes static and whole.
        host: paths of the node's files.
        consumable_shares: whether several claims may have a device, and by what it is divided: `memory`: each
            claim has a part of the memory; `unlimited`: any number of claims; a number: at most so many claims.
        mps: MPS control daemons for claims; None: claims that request MPS are refused.
        simulator: the simulated GPUs.
    """

    mode: Mode | None = None
    mig_switching: MigSwitching = MigSwitching.NEVER
    passthrough: bool = False
    xids: Mapping[int, Effect] = {}
    double_bit_ecc: Effect | None = None
    recovery_actions: Mapping[RecoveryName, Effect] = {}
    recover_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    destroy_seconds: Annotated[float, msgspec.Meta(ge=0)] = 20.0
    call_seconds: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    close_when_idle: bool = True
    host: HostSettings = HostSettings()
    consumable_shares: Literal["disabled", "memory", "unlimited"] | Annotated[int, msgspec.Meta(ge=1)] = (
        "disabled"
    )
    mps: MpsSettings | None = None
    simulator: SimulatorSettings = SimulatorSettings()


class _ExceptionNames(_Strict, frozen=True):
    names: tuple[str, ...]


def read_settings(text: str, node: str) -> GpuSettings:
    """Return the settings of one node.

    Args:
        text: YAML; empty: all defaults.
        node: name of the node.

    Raises:
        UsageError: the text is invalid for this or any other node.
    """
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise dra.UsageError(f"${VARIABLE}: invalid YAML: {error}") from error
    if not isinstance(document, dict):
        raise dra.UsageError(f"${VARIABLE}: must be a mapping, for example `mode: dynamic`")
    exceptions = document.pop("nodes", None) or []
    settings = _convert(document, GpuSettings, "")
    if not isinstance(exceptions, list):
        raise dra.UsageError(f"${VARIABLE}: nodes: must be a list")
    # Every node reads all exceptions, so that every node reports an error in any exception.
    read = [_read_exception(document, each, index) for index, each in enumerate(exceptions)]
    matching = (settings for names, settings in read if any(fnmatchcase(node, name) for name in names))
    return next(matching, settings)


def _read_exception(
    document: Mapping[str, object], overrides: object, index: int
) -> tuple[tuple[str, ...], GpuSettings]:
    field = f"nodes[{index}]"
    if not isinstance(overrides, dict) or "names" not in overrides:
        raise dra.UsageError(f"${VARIABLE}: {field}: must be a mapping with `names`")
    names = _convert({"names": overrides.pop("names")}, _ExceptionNames, field).names
    return names, _convert({**document, **overrides}, GpuSettings, field)


def _convert(document: object, kind: type[_T], field: str) -> _T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        prefix = f"{field}: " if field else ""
        raise dra.UsageError(f"${VARIABLE}: {prefix}{error}") from error
