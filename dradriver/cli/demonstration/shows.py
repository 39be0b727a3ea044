"""Data of a demonstration for each driver: its manifests, and how a container shows its device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.device import Device

__all__ = ["SHOWS", "Show"]


@dataclass(frozen=True, slots=True)
class Show:
    """The demonstration of one driver.

    Attributes:
        entry: name by which `dradriver run` finds the driver.
        driver: name of the driver in the cluster.
        manifests: file names of its manifests. They include two pods with one claim each.
        missing: returns why the devices are not enough; empty if they are.
        seen: returns whether a container's output shows the edits of its claim.
        simulate: value of `$DRADRIVER_SIMULATE` for the driver.
        hand: `module:Class` in the driver's package that plugs in and pulls simulated cards (`hotplug.Hand`);
            empty if there is none.
    """

    entry: str
    driver: str
    manifests: Sequence[str]
    missing: Callable[[Sequence[Device]], str]
    seen: Callable[[str, ContainerEdits], bool]
    simulate: str = "never"
    hand: str = ""


def _too_few_loops(devices: Sequence[Device]) -> str:
    if sum(not device.attribute("backed") for device in devices) >= 2:
        return ""
    return (
        "the demo needs two loop devices without a file behind them, and this machine has fewer; "
        "run it as root, so that the driver can make some"
    )


def _loop_is_seen(text: str, edits: ContainerEdits) -> bool:
    path = edits.device_nodes[0].path
    return f"LOOP_DEVICE={path}" in text and text.count(path) > 1


def _no_partitions(devices: Sequence[Device]) -> str:
    return "" if devices else "the simulated cards offer nothing"


def _variables_are_seen(text: str, edits: ContainerEdits) -> bool:
    return all(variable in text for variable in edits.env)


SHOWS: Final = {
    show.entry: show
    for show in (
        Show(
            "loop",
            "loop.example.com",
            ("class.yaml", "pods.yaml"),
            _too_few_loops,
            _loop_is_seen,
        ),
        Show(
            "gpu-mig",
            "gpu.nvidia.com",
            ("classes.yaml", "pods.yaml"),
            _no_partitions,
            _variables_are_seen,
            simulate="always",
        ),
        Show(
            "fpga",
            "fpga.example.com",
            ("classes.yaml", "pods.yaml"),
            _no_partitions,
            _variables_are_seen,
            simulate="always",
            hand="hotplug:CardHotplug",
        ),
    )
}
"""Every show by the entry of its driver. A demonstration runs them in this order."""
