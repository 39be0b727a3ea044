"""The drivers that can be shown: their manifests, and how a container shows its device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.device import Device
from dradriver.runner import driver_names

__all__ = ["SHOWS", "Show", "find_installed_shows"]


@dataclass(frozen=True, slots=True)
class Show:
    """The demonstration of one driver.

    Attributes:
        entry: entry point of the driver, the NAME of `dradriver run`.
        driver: name of the driver in the cluster.
        manifests: file names of the driver's manifests. The manifests contain two pods with one claim each.
        shortage: returns why the published devices are not enough; empty if they are enough.
        shows_edits: returns whether a container's output shows the edits of its claim.
        simulate: value of `$DRADRIVER_SIMULATE` for the driver.
        nodes: number of nodes that run the driver.
        pools: entry point of the pool driver of the same name that publishes the devices; empty if the driver
            itself publishes them.
        fault: `module:function` in the driver's package that makes the attachment for the last pod fail once
            (`failure.PlanFault`); empty if the demonstration has no failure.
        hotplug: `module:Class` in the driver's package that plugs in and pulls simulated cards
            (`hotplug.CardPlugger`); empty if the driver has no such class.
    """

    entry: str
    driver: str
    manifests: Sequence[str]
    shortage: Callable[[Sequence[Device]], str]
    shows_edits: Callable[[str, ContainerEdits], bool]
    simulate: str = "never"
    hotplug: str = ""
    nodes: int = 1
    pools: str = ""
    fault: str = ""

    @property
    def entries(self) -> Sequence[str]:
        """The entry points of the driver, and of its pool driver."""
        return (self.pools, self.entry) if self.pools else (self.entry,)


def _find_loop_shortage(devices: Sequence[Device]) -> str:
    if sum(not device.attribute("backed") for device in devices) >= 2:
        return ""
    return (
        "the demonstration needs two loop devices without a backing file, and this machine has fewer: "
        "run it as root, so that the driver can create them"
    )


def _shows_loop_device(text: str, edits: ContainerEdits) -> bool:
    path = edits.device_nodes[0].path
    return f"LOOP_DEVICE={path}" in text and text.count(path) > 1


def _find_partition_shortage(devices: Sequence[Device]) -> str:
    return "" if devices else "the simulated cards have no devices"


def _shows_variables(text: str, edits: ContainerEdits) -> bool:
    return all(variable in text for variable in edits.env)


SHOWS: Final = {
    show.entry: show
    for show in (
        Show(
            "loop",
            "loop.example.com",
            ("class.yaml", "pods.yaml"),
            _find_loop_shortage,
            _shows_loop_device,
        ),
        Show(
            "gpu-mig",
            "gpu.nvidia.com",
            ("classes.yaml", "pods.yaml"),
            _find_partition_shortage,
            _shows_variables,
            simulate="always",
        ),
        Show(
            "fpga",
            "fpga.example.com",
            ("classes.yaml", "pods.yaml"),
            _find_partition_shortage,
            _shows_variables,
            simulate="always",
            hotplug="hotplug:CardHotplug",
        ),
        Show(
            "fabric-cxl",
            "cxl.example.com",
            ("classes.yaml", "pods.yaml"),
            _find_partition_shortage,
            _shows_variables,
            simulate="always",
            nodes=2,
            pools="fabric-cxl-pools",
            fault="simulation:fail_next_attachment",
        ),
    )
}
"""All shows by the entry point of the driver. A demonstration runs the shows in this order."""


def find_installed_shows() -> tuple[str, ...]:
    """Return the shows whose drivers are installed, in the order of `SHOWS`.

    Raises:
        DraError: no driver of a show is installed.
    """
    installed = tuple(entry for entry in SHOWS if entry in driver_names())
    if not installed:
        known = ", ".join(f"dradriver-{entry}" for entry in SHOWS)
        raise DraError(f"none of the drivers {known} is installed: pip install dradriver-loop")
    return installed
