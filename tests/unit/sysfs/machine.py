"""A machine's sysfs in a folder: two sockets of two NUMA nodes each, and devices on two root complexes."""

from pathlib import Path

_DISTANCES = ("10 12 21 21", "12 10 21 21", "21 21 10 12", "21 21 12 10")


class Machine:
    def __init__(self, root: Path) -> None:
        self.sysfs = root
        for node, row in enumerate(_DISTANCES):
            self.write(f"devices/system/node/node{node}/distance", row)
            self.write(f"devices/system/node/node{node}/cpulist", f"{node * 4}-{node * 4 + 3},{node + 16}")
            for cpu in range(node * 4, node * 4 + 4):
                self.write(f"devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(node // 2))
                (root / f"devices/system/cpu/cpu{cpu}/node{node}").symlink_to(f"../../node/node{node}")

    def write(self, path: str, text: str) -> None:
        file = self.sysfs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def add_pci(self, bus_id: str, place: str = "pci0000:64/0000:64:02.0", node: int | None = 0) -> str:
        """A device at a place below /sys/devices."""
        folder = self.sysfs / "devices" / place / bus_id
        folder.mkdir(parents=True)
        if node is not None:
            (folder / "numa_node").write_text(f"{node}\n")
        link = self.sysfs / "bus/pci/devices" / bus_id
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../../devices/{place}/{bus_id}")
        return bus_id
