"""What a demonstration shows of each driver: its manifests, and how a container shows its device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.device import Device

__all__ = ["SHOWS", "Show"]


@dataclass(frozen=True, slots=True)
class Show:
    """One driver's part.

    Attributes:
        entry: the name by which `dradriver run` finds the driver.
        driver: its name in the cluster.
        manifests: the file names of its manifests; two pods are among them, each with one claim.
        missing: what keeps the devices from being enough; empty if nothing does.
        seen: whether a container's output shows what the claim's edits give to it.
        simulate: whether the driver's simulator is used, whatever this machine has.
        hand: `module:Class`, in the driver's package, of what plugs in and pulls simulated cards
            (`hotplug.Hand`); empty if nothing does.
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
"""Every show, by the driver's entry; a demonstration gives all of them in this order."""
