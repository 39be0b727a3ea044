"""Devices below a folder, as the kernel shows them below /sys."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BUSES = {"platform", "pci", "dfl"}


@dataclass
class Tree:
    """A `/sys` of its own; devices are named by their path below `devices`.

    Attributes:
        sysfs: the folder.
        made: the subsystem of each device, in the order of their making.
    """

    sysfs: Path
    made: dict[str, str] = field(default_factory=dict)

    @property
    def graveyard(self) -> Path:
        return self.sysfs.parent / "gone"

    def path(self, device: str) -> Path:
        return self.sysfs / "devices" / device

    def add(self, device: str, subsystem: str, attributes: Mapping[str, str] | None = None) -> None:
        path = self.path(device)
        path.mkdir(parents=True, exist_ok=True)
        for name, text in {"uevent": "", **(attributes or {})}.items():
            self.write(device, name, text)
        shelf = self._shelf(subsystem)
        shelf.mkdir(parents=True, exist_ok=True)
        home = shelf.parent if subsystem in BUSES else shelf
        (path / "subsystem").symlink_to(os.path.relpath(home, path))
        (shelf / path.name).symlink_to(os.path.relpath(path, shelf))
        self.made[device] = subsystem

    def below(self, device: str) -> dict[str, str]:
        """A device and all below it with their subsystems, the last one first."""
        found = [(each, kind) for each, kind in self.made.items() if f"{each}/".startswith(f"{device}/")]
        return dict(found[::-1])

    def remove(self, device: str) -> None:
        """Removes a device and all below it."""
        for each, kind in self.below(device).items():
            (self._shelf(kind) / Path(each).name).unlink()
            del self.made[each]
        # Kept elsewhere: a device that comes anew is another one, with an inode of its own.
        self.graveyard.mkdir(exist_ok=True)
        self.path(device).rename(self.graveyard / str(len(list(self.graveyard.iterdir()))))

    def write(self, device: str, attribute: str, text: str) -> None:
        """Sets an attribute, in one step as the kernel does; a device that is gone has none."""
        file = self.path(device) / attribute
        if "/" in attribute and self.path(device).is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.new")
        unfinished.write_text(f"{text}\n" if text else "")
        unfinished.replace(file)

    def _shelf(self, subsystem: str) -> Path:
        if subsystem in BUSES:
            return self.sysfs / "bus" / subsystem / "devices"
        return self.sysfs / "class" / subsystem
