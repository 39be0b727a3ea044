"""Chooses the cards that the driver works with: the cards of the node, or simulated cards."""

import hashlib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec

from dradriver_fpga.card import FpgaHardware
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
from dradriver_fpga.card.values import CardKind
from dradriver_fpga.settings import FpgaHostSettings, FpgaSettings

__all__ = ["SIMULATED_STATE", "choose_hardware", "make_host"]

SIMULATED_STATE: Final = "simulated.json"
"""File of the simulated cards in the driver's folder. The simulated cards outlive the driver's process."""


def choose_hardware(
    settings: FpgaSettings, simulate: Literal["never", "auto", "always"], folder: Path
) -> tuple[FpgaHardware, FpgaSettings]:
    """Return the cards, and the settings for these cards. Blocking.

    Args:
        settings: the operator's settings.
        simulate: mode of the SDK; with `auto`, cards are simulated if no card is found.
        folder: folder that only this driver uses.
    """
    if simulate != "always":
        real = RealFpgas(make_host(settings.host, folder))
        if simulate == "never" or real.cards():
            return real, settings
    simulator = settings.simulator
    cards = SimulatedFpgas(
        simulator.models, store=FpgaFileStore(folder / SIMULATED_STATE), speed=simulator.speed
    )
    return cards, _add_example_bitstreams(settings)


def make_host(host: FpgaHostSettings, folder: Path) -> FpgaHost:
    """Return the paths and programs of the node from the settings.

    Args:
        host: the operator's settings.
        folder: folder that only this driver uses.
    """
    node, tools = FpgaHost(folder / "programmed.json"), host.tools
    shells = {CardKind.XRT: tools.xrt_shell, CardKind.DFL: tools.dfl_shell}
    return replace(
        node,
        sysfs=Path(host.sysfs),
        dev=Path(host.dev),
        firmware=Path(host.firmware),
        overlays=Path(host.overlays),
        manager_tools=(tools.manager,) if tools.manager else node.manager_tools,
        region_tools=(tools.xrt_region,) if tools.xrt_region else node.region_tools,
        shell_tools={**node.shell_tools, **{kind: command for kind, command in shells.items() if command}},
    )


def _add_example_bitstreams(settings: FpgaSettings) -> FpgaSettings:
    """Return settings that approve the bitstreams of the example manifests, unless a folder is configured."""
    rules = settings.bitstreams
    if rules.folder:
        return settings
    folder = Path(str(files("dradriver_fpga.card.simulator") / "bitstreams"))
    examples = (hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()))
    approved = msgspec.structs.replace(rules, folder=str(folder), digests=(*rules.digests, *examples))
    return msgspec.structs.replace(settings, bitstreams=approved)
