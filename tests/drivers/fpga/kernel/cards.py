"""The simulator's cards as the kernel would show them: the same facts, in sysfs' words."""

import os

from dradriver_fpga.card import FaultKind
from dradriver_fpga.card.simulator import FpgaModel
from tests.drivers.fpga.kernel.tree import Tree

MAJOR = 242
ENGINE_ERRORS = (
    *("fme_errors", "first_error", "next_error", "pcie0_errors", "pcie1_errors"),
    *("nonfatal_errors", "catfatal_errors", "inject_errors"),
)
"""Registers of a `dfl-fme` device: Documentation/ABI/testing/sysfs-platform-dfl-fme."""
FAULTS = {
    ("DFL", FaultKind.FATAL_ERROR): ("dfl-fme.{order}", "errors/catfatal_errors", "0x4", "0x0"),
    ("DFL", FaultKind.ERROR): ("dfl-port.{port}", "errors/errors", "0x1000", "0x0"),
    ("DFL", FaultKind.POWERED_DOWN): ("dfl-port.{port}", "power_state", "0x6", "0x0"),
    ("DFL", FaultKind.OVERHEATED): ("dfl-fme.{order}/hwmon/hwmon{order}", "temp1_crit_alarm", "1", "0"),
    ("XRT", FaultKind.OFFLINE): ("{card}", "dev_offline", "1", "0"),
    ("XRT", FaultKind.MEMORY_ERROR): ("{card}", "mig.u.1/ecc_ue_cnt", "3", "0"),
    ("XRT", FaultKind.ERROR): ("{card}", "firewall.u.1/detected_level", "2", "0"),
}
"""By kinds of card and fault: the device, its attribute, and the attribute with and without the fault."""


def make_card_id(model: FpgaModel, number: int) -> str:
    """The ID of the n-th card of a model."""
    if isinstance(model.location, int):
        return f"0000:{model.location + 2 * number:02x}:00.{model.function}"
    return model.location if not number else f"{model.location}.{number}"


def find_home(card: str) -> str:
    """The device that a card is, and that all its others are below."""
    if card[4:5] != ":":
        return f"platform/{card}"
    return f"pci0000:{int(card[5:7], 16) & 0xF0:02x}/{card}"


def add_card(tree: Tree, model: FpgaModel, card: str, order: int) -> None:
    """Adds the n-th card of the node."""
    {"DFL": _add_dfl, "MANAGER": _add_manager, "XRT": _add_xrt, "VFIO": _add_vfio}[model.kind](
        tree, model, card, order
    )


def node(name: str) -> dict[str, str]:
    number = int("".join(filter(str.isdigit, name)) or 0)
    return {"dev": f"{MAJOR}:{number}", "uevent": f"MAJOR={MAJOR}\nMINOR={number}\nDEVNAME={name}"}


def add_function(tree: Tree, model: FpgaModel, address: str) -> str:
    home = find_home(address)
    numbers = {"vendor": f"0x{model.vendor}", "device": f"0x{model.device}"}
    tree.add(home, "pci", {**numbers, "numa_node": str(int(address[5:7], 16) // 0x80)})
    return home


def add_fpga_manager(tree: Tree, model: FpgaModel, owner: str, order: int) -> str:
    device = f"{owner}/fpga_manager/fpga{order}"
    tree.add(device, "fpga_manager", {"name": model.manager, "state": "operating", "status": ""})
    return device


def add_fpga_bridge(tree: Tree, owner: str, order: int, number: int) -> None:
    names = {"name": f"bridge {number}", "state": "enabled"}
    tree.add(f"{owner}/fpga_bridge/br{16 * order + number}", "fpga_bridge", names)


def _add_dfl(tree: Tree, model: FpgaModel, card: str, order: int) -> None:
    holder = f"{add_function(tree, model, card)}/fpga_region/region{16 * order}"
    tree.add(holder, "fpga_region")
    engine = f"{holder}/dfl-fme.{order}"
    ports = model.regions * model.slots
    about = {"bitstream_id": model.shells[0].name, "ports_num": str(ports)}
    about |= {f"errors/{name}": "0x0" for name in ENGINE_ERRORS}
    tree.add(engine, "platform", {**about, **node(f"dfl-fme.{order}")})
    thermal = {"name": "dfl_fme_thermal", "temp1_input": "52000", "temp1_max": "90000"}
    thermal |= {"temp1_crit": "95000", "temp1_crit_alarm": "0"}
    tree.add(f"{engine}/hwmon/hwmon{order}", "hwmon", thermal)
    tree.add(f"{engine}/dfl-fme-mgr.{order}", "platform")
    add_fpga_manager(tree, model, f"{engine}/dfl-fme-mgr.{order}", order)
    for number in range(model.regions):
        index = 16 * order + number
        tree.add(f"{engine}/dfl-fme-br.{index}", "platform")
        add_fpga_bridge(tree, f"{engine}/dfl-fme-br.{index}", order, number)
        tree.add(f"{engine}/dfl-fme-region.{index}", "platform")
        region = f"{engine}/dfl-fme-region.{index}/fpga_region/region{index + 1}"
        tree.add(region, "fpga_region", {"compat_id": model.shells[0].interface_id})
        port = f"dfl-port.{index}"
        healthy = {"power_state": "0x0", "errors/errors": "0x0", "errors/first_error": "0x0"}
        about = {"id": str(number), "afu_id": model.afu, **healthy, **node(port)}
        tree.add(f"{holder}/{port}", "platform", about)


def _add_manager(tree: Tree, model: FpgaModel, card: str, order: int) -> None:
    home = find_home(card)
    tree.add(home, "platform")
    manager = add_fpga_manager(tree, model, home, order)
    tree.write(manager, "firmware", "")
    tree.write(manager, "flags", "0")
    add_fpga_bridge(tree, home, order, 0)


def _add_xrt(tree: Tree, model: FpgaModel, card: str, order: int) -> None:
    shell = model.shells[0]
    user = add_function(tree, model, card)
    tree.write(user, "user_pf", "")
    tree.write(user, "xclbinuuid", model.afu)
    for name, text in {"ready": "0x1", "dev_offline": "0", "mig.u.1/ecc_ue_cnt": "0"}.items():
        tree.write(user, name, text)
    if shell.interface_id:
        tree.write(user, "interface_uuids", "\n".join((shell.interface_id, *shell.other_interface_ids)))
    tree.write(user, "rom.u.1/VBNV", shell.name)
    if shell.timestamp:
        tree.write(user, "rom.u.1/timestamp", str(shell.timestamp))
    if model.serial:
        tree.write(user, "xmc.u.1/serial_num", model.serial)
    render = f"renderD{128 + order}"
    tree.add(f"{user}/drm/{render}", "drm", node(f"dri/{render}"))
    management = add_function(tree, model, f"{card[:-1]}0")
    tree.write(management, "mgmt_pf", "")
    add_fpga_manager(tree, model, management, order)
    add_fpga_bridge(tree, management, order, 0)


def _add_vfio(tree: Tree, model: FpgaModel, card: str, order: int) -> None:
    bind_to_vfio(tree, add_function(tree, model, card), str(order))


def bind_to_vfio(tree: Tree, function: str, group: str) -> None:
    """Binds a PCI function to vfio-pci; `group` is its IOMMU group."""
    path = tree.path(function)
    for name, target in (
        ("driver", "bus/pci/drivers/vfio-pci"),
        ("iommu_group", f"kernel/iommu_groups/{group}"),
    ):
        folder = tree.sysfs / target
        (folder / "devices").mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(os.path.relpath(folder, path))
    for holder in ("bus/pci/drivers/vfio-pci", f"kernel/iommu_groups/{group}/devices"):
        link = tree.sysfs / holder / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(path, link.parent))
    if f"virtual/vfio/{group}" not in tree.made:
        tree.add(f"virtual/vfio/{group}", "vfio", node(f"vfio/{group}"))
    if "virtual/misc/vfio" not in tree.made:
        tree.add("virtual/misc/vfio", "misc", node("vfio/vfio"))


def add_out_of_tree_card(tree: Tree, model: FpgaModel, card: str) -> str:
    """Adds a card with Intel's driver from before DFL, and returns the folder of its devices."""
    folder = f"{add_function(tree, model, card)}/fpga/intel-fpga-dev.0"
    tree.add(folder, "fpga")
    engine = {
        "bitstream_id": model.shells[0].name,
        "ports_num": "1",
        "pr/interface_id": model.shells[0].interface_id,
    }
    errors = ("fme-errors/errors", "pcie0_errors", "pcie1_errors", "bbs_errors", "gbs_errors", "inject_error")
    engine |= {f"errors/{name}": "0x0" for name in errors} | node("intel-fpga-fme.0")
    tree.add(f"{folder}/intel-fpga-fme.0", "platform", engine)
    port = {
        "id": "0",
        "afu_id": model.afu,
        "errors/errors": "0x0",
        "power_state": "0x0",
        **node("intel-fpga-port.0"),
    }
    tree.add(f"{folder}/intel-fpga-port.0", "platform", port)
    return folder
