"""Folders and vendors' programs of the settings reach the hardware; what is left out stays as it is."""

from pathlib import Path

from dradriver_fpga.card.real import Host
from dradriver_fpga.card.values import CardKind
from dradriver_fpga.factory import node_of
from dradriver_fpga.settings import read_settings

SETTINGS = """
host:
  firmware: /host/lib/firmware
  tools:
    xrtRegion: [/opt/region, "{card}", "{file}"]
    dflShell: [/opt/shell, "{file}"]
"""


def test_without_settings_the_node_is_as_it_is_by_default() -> None:
    records = Path("/data/programmed.json")
    assert node_of(read_settings("").host, Path("/data")) == Host(records)


def test_what_the_settings_name_is_used_and_the_rest_stays() -> None:
    node, default = node_of(read_settings(SETTINGS).host, Path("/data")), Host(Path("/data/programmed.json"))
    assert node.firmware == Path("/host/lib/firmware")
    assert node.region_tool == ("/opt/region", "{card}", "{file}")
    assert node.shell_tools[CardKind.DFL] == ("/opt/shell", "{file}")
    assert node.shell_tools[CardKind.XRT] == default.shell_tools[CardKind.XRT]
    assert (node.sysfs, node.dev) == (default.sysfs, default.dev)
