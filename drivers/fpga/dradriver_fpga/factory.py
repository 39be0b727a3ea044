"""Chooses the cards that the driver works with: those of the node, or simulated ones."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec

from dradriver_fpga.card import Hardware
from dradriver_fpga.card.real import Host, RealHardware
from dradriver_fpga.card.simulator import FileStore, SimulatedHardware
from dradriver_fpga.card.values import CardKind
from dradriver_fpga.settings import HostSettings, Settings

__all__ = ["SIMULATED", "choose", "node_of"]

SIMULATED: Final = "simulated.json"
"""File of the simulated cards in the driver's folder. They outlive its process."""


def choose(
    settings: Settings, simulate: Literal["never", "auto", "always"], folder: Path
) -> tuple[Hardware, Settings]:
    """Return the cards and the settings for them. Blocking.

    Args:
        settings: the operator's settings.
        simulate: mode of the SDK; `auto` simulates if no card is found.
        folder: folder that only this driver uses.
    """
    if simulate != "always":
        real = RealHardware(node_of(settings.host, folder))
        if simulate == "never" or real.cards():
            return real, settings
    simulator = settings.simulator
    cards = SimulatedHardware(simulator.models, store=FileStore(folder / SIMULATED), speed=simulator.speed)
    return cards, _with_examples(settings)


def node_of(host: HostSettings, folder: Path) -> Host:
    """Return the paths and programs of the node from the settings.

    Args:
        host: the operator's settings.
        folder: folder that only this driver uses.
    """
    node, tools = Host(folder / "programmed.json"), host.tools
    shells = {CardKind.XRT: tools.xrt_shell, CardKind.DFL: tools.dfl_shell}
    return replace(
        node,
        sysfs=Path(host.sysfs),
        dev=Path(host.dev),
        firmware=Path(host.firmware),
        region_tool=tools.xrt_region or node.region_tool,
        shell_tools={**node.shell_tools, **{kind: words for kind, words in shells.items() if words}},
    )


def _with_examples(settings: Settings) -> Settings:
    """Return settings with the bitstreams of the example manifests, unless the operator gives a folder."""
    rules = settings.bitstreams
    if rules.folder:
        return settings
    folder = str(files("dradriver_fpga.card.simulator") / "bitstreams")
    return msgspec.structs.replace(settings, bitstreams=msgspec.structs.replace(rules, folder=folder))
