"""Folders with the attributes that the kernel of a guest showed."""

from pathlib import Path

from dradriver_fabric_cxl.memory.sysfs import MemoryPaths

ROOT = "devices/platform/ACPI0017:00/root0"
WINDOW = "decoder0.0"
START = 0x2_9000_0000
SIZE = 0x1000_0000
BLOCK = 0x800_0000


class Tree:
    """Sysfs, dev and proc of a node below a folder."""

    def __init__(self, folder: Path) -> None:
        self.paths = MemoryPaths(folder / "sys", folder / "dev", folder / "proc", folder / "udev")
        self.sys = folder / "sys"
        self.write("bus/cxl/drivers/cxl_region/bind")
        for driver in ("device_dax", "kmem"):
            for name in ("bind", "unbind", "new_id", "remove_id"):
                self.write(f"bus/dax/drivers/{driver}/{name}")
        self.write("devices/system/memory/block_size_bytes", f"{BLOCK:x}")
        self.paths.proc.mkdir()

    def write(self, path: str, text: str = "") -> None:
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def link(self, link: str, target: str) -> None:
        path = self.sys / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.sys / target)

    def add_window(self, *, ways: int = 1, volatile: bool = True) -> None:
        root = f"{ROOT}/{WINDOW}"
        self.write(f"{root}/start", f"{START:#x}")
        self.write(f"{root}/size", f"{4 * SIZE:#x}")
        self.write(f"{root}/interleave_ways", str(ways))
        self.write(f"{root}/cap_ram", str(int(volatile)))
        self.write(f"{root}/target_list", "12")
        if volatile:
            self.write(f"{root}/create_ram_region", "region0")
        self.write(f"{ROOT}/decoders_committed", "0")
        self.link("bus/cxl/devices/root0", ROOT)
        self.link(f"bus/cxl/devices/{WINDOW}", root)

    def add_memdev(self, number: int, serial: int, *, bridge: str = "pci0000:0c") -> None:
        folder = f"devices/{bridge}/0000:0c:00.0/0000:0d:00.0/mem{number}"
        self.write(f"{folder}/serial", f"{serial:#x}")
        self.write(f"{folder}/ram/size", f"{SIZE:#x}")
        self.link(f"bus/cxl/devices/mem{number}", folder)

    def add_endpoint(self, number: int, memdev: int, reserved: int = 0) -> None:
        folder = f"{ROOT}/port1/endpoint{number}"
        for decoder in (0, 1):
            self.write(f"{folder}/decoder{number}.{decoder}/mode", "ram" if reserved else "none")
            self.write(f"{folder}/decoder{number}.{decoder}/dpa_size", f"{0 if decoder else reserved:#x}")
        (self.sys / folder / "uport").symlink_to((self.sys / f"bus/cxl/devices/mem{memdev}").resolve())
        self.link(f"bus/cxl/devices/endpoint{number}", folder)

    def add_region(self, number: int, target: str, *, driver: str = "") -> None:
        folder = f"{ROOT}/{WINDOW}/region{number}"
        attributes = {
            "mode": "ram",
            "size": f"{SIZE:#x}",
            "resource": f"{START + number * SIZE:#x}",
            "interleave_ways": "1",
            "target0": target,
            "commit": str(int(bool(target))),
        }
        for name, text in attributes.items():
            self.write(f"{folder}/{name}", text)
        self.link(f"bus/cxl/devices/region{number}", folder)
        if driver:
            self.link(f"{folder}/driver", "bus/cxl/drivers/cxl_region")
            self._add_dax(folder, number, driver)

    def add_blocks(self, region: int, state: str, zones: str) -> None:
        for number in range(SIZE // BLOCK):
            folder = f"devices/system/memory/memory{(START + region * SIZE) // BLOCK + number}"
            self.write(f"{folder}/state", state)
            self.write(f"{folder}/valid_zones", zones)

    def _add_dax(self, region: str, number: int, driver: str) -> None:
        folder = f"{region}/dax_region{number}/dax{number}.0"
        attributes = {"size": str(SIZE), "align": "2097152", "target_node": "1", "dev": f"252:{number}"}
        for name, text in attributes.items():
            self.write(f"{folder}/{name}", text)
        self.link(f"{folder}/driver", f"bus/dax/drivers/{driver}")
        self.link(f"bus/dax/devices/dax{number}.0", folder)
