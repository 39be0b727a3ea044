"""`PciBus` reads this machine's PCI functions, and the fake kernel has only files that sysfs has."""

from pathlib import Path

import pytest

from dradriver_gpu_mig.passthrough import PciBus
from tests.drivers.gpu_mig.passthrough.kernel import PciTree

SYSFS = Path("/sys")
DEVICES = SYSFS / "bus/pci/devices"
ADDRESSES = sorted(path.name for path in DEVICES.iterdir()) if DEVICES.is_dir() else []


@pytest.mark.skipif(not ADDRESSES, reason="this machine has no PCI functions in sysfs")
def test_every_function_of_this_machine_is_read(tmp_path: Path) -> None:
    bus = PciBus(SYSFS)
    for address in ADDRESSES:
        function = bus.read_function(address)
        assert function is not None
        link = DEVICES / address / "driver"
        assert function.driver == (link.readlink().name if link.is_symlink() else None)
        assert function.override == ""
        assert bus.read_ids(address)[0].startswith("0x")
        assert (bus.read_group(address) is None) == (not (DEVICES / address / "iommu_group").exists())
    tree = PciTree(tmp_path)
    tree.add("0000:07:00.0", 17, None)
    faked = {path.name for path in (tmp_path / "bus/pci/devices/0000:07:00.0").iterdir()}
    real = {path.name for address in ADDRESSES for path in (DEVICES / address).iterdir()}
    # A machine without an IOMMU has no groups; `native` tells the fake kernel which driver knows the device.
    assert faked - {"iommu_group", "native"} <= real
