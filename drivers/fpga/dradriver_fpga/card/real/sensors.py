"""Reads error registers, power states, temperatures, and the state that a card's driver reports.

Only files of sysfs are read, because a vendor's program takes seconds and may hang with the card. A file
that a card does not have is skipped. Values that change at each read, such as a temperature, are compared
here with the card's own threshold, so that an unchanged card reads as unchanged.

Source:
    Documentation/ABI/testing/sysfs-platform-dfl-fme and -port; OPAE's xfpga plugin for the out-of-tree driver
    (`errors/fme-errors/errors`, `bbs_errors`, `gbs_errors`); XRT, device_linux.cpp (`is_offline`, `is_ready`,
    `mig_ecc_ue_cnt`, `firewall_detect_level`); Documentation/hwmon/sysfs-interface.rst.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from dradriver_fpga.card.faults import Fault, FaultKind
from dradriver_fpga.card.real.survey import CardParts
from dradriver_fpga.card.real.sysfs import SysfsDevice, list_devices, list_matches, read

__all__ = ["read_faults"]

_ENGINE: Final = {
    "errors/catfatal_errors": FaultKind.FATAL_ERROR,
    "errors/bbs_errors": FaultKind.FATAL_ERROR,
    "errors/nonfatal_errors": FaultKind.ERROR,
    "errors/gbs_errors": FaultKind.ERROR,
    "errors/fme_errors": FaultKind.ERROR,
    "errors/fme-errors/errors": FaultKind.ERROR,
    "errors/pcie0_errors": FaultKind.ERROR,
    "errors/pcie1_errors": FaultKind.ERROR,
    "errors/inject_errors": FaultKind.ERROR,
    "errors/inject_error": FaultKind.ERROR,
}
_PORT: Final = {"errors/errors": FaultKind.ERROR}
_XRT: Final = {
    "dev_offline": FaultKind.OFFLINE,
    "firewall*/detected_level": FaultKind.ERROR,
    "mig*/ecc_ue_cnt": FaultKind.MEMORY_ERROR,
}
"""Files that contain 0 on a healthy card."""
_AP6: Final = 6
"""`power_state` of a port whose logic is switched off."""


def read_faults(sysfs: Path, folder: Path, parts: CardParts, regions: Mapping[Path, str]) -> Iterator[Fault]:
    """Yield the faults that a card reports.

    Args:
        sysfs: mount point of sysfs.
        folder: folder of the card's device.
        parts: devices of the card.
        regions: ID of each port's region, by the port's folder.
    """
    for engine in parts.engines:
        yield from _read_counters(engine, _ENGINE, "")
    for port in parts.ports:
        yield from _read_counters(port, _PORT, regions.get(port.path, ""))
        if _parse(port.attribute("power_state")) == _AP6:
            message = f"{port.name}/power_state is AP6: the card has switched off the port's logic"
            yield Fault(FaultKind.POWERED_DOWN, regions.get(port.path, ""), message)
    functions = [each for each in (parts.user, parts.management) if each is not None]
    for function in functions:
        yield from _read_counters(function, _XRT, "")
        if _parse(function.attribute("ready")) == 0:
            yield Fault(FaultKind.OFFLINE, "", f"{function.name}/ready is 0: the card's driver is not ready")
    yield from _read_temperatures(sysfs, {folder, *(each.path for each in functions)})


def _read_counters(device: SysfsDevice, table: Mapping[str, FaultKind], region: str) -> Iterator[Fault]:
    for pattern, kind in table.items():
        files = list_matches(device.path, pattern) if "*" in pattern else [device.path / pattern]
        for file in files:
            text = read(file)
            if _parse(text):
                yield Fault(kind, region, f"{device.name}/{file.relative_to(device.path)} is {text}")


def _read_temperatures(sysfs: Path, folders: Iterable[Path]) -> Iterator[Fault]:
    """Yield the faults of the sensors below a card: of its engine, its board controller and its driver."""
    for sensor in list_devices(sysfs, "hwmon"):
        if not any(sensor.path.is_relative_to(folder) for folder in folders):
            continue
        for threshold in list_matches(sensor.path, "temp*_crit"):
            name = threshold.name.removesuffix("_crit")
            limit, now = _parse(read(threshold)), _parse(sensor.attribute(f"{name}_input"))
            exceeds = limit is not None and now is not None and 0 < limit <= now
            if _parse(sensor.attribute(f"{name}_crit_alarm")) == 1 or exceeds:
                label = sensor.attribute(f"{name}_label") or name
                message = (
                    f"{sensor.attribute('name') or sensor.name}: {label} has reached its critical threshold"
                )
                yield Fault(FaultKind.OVERHEATED, "", f"{message}, {(limit or 0) / 1000:.0f} °C")


def _parse(text: str) -> int | None:
    """Return the number in a file, decimal or hexadecimal; None if there is none."""
    try:
        return int(text, 0)
    except ValueError:
        return None
