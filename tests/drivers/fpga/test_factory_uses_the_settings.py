"""Folders and programs of the settings reach the hardware. Other values keep their defaults."""

import hashlib
from pathlib import Path

from dradriver_fpga.card.real import FpgaHost
from dradriver_fpga.card.values import CardKind
from dradriver_fpga.factory import choose_hardware, make_host
from dradriver_fpga.settings import read_settings

SETTINGS = """
host:
  firmware: /host/lib/firmware
  overlays: /host/config/device-tree/overlays
  tools:
    xrtRegion: [/opt/region, "{card}", "{file}"]
    dflShell: [/opt/shell, "{file}"]
    manager: [/opt/manager, "{file}"]
"""


def test_without_settings_the_node_is_as_it_is_by_default() -> None:
    records = Path("/data/programmed.json")
    assert make_host(read_settings("").host, Path("/data")) == FpgaHost(records)


def test_the_settings_override_the_defaults() -> None:
    node, default = (
        make_host(read_settings(SETTINGS).host, Path("/data")),
        FpgaHost(Path("/data/programmed.json")),
    )
    assert node.firmware == Path("/host/lib/firmware")
    assert node.region_tools == (("/opt/region", "{card}", "{file}"),)
    assert node.overlays == Path("/host/config/device-tree/overlays")
    assert node.manager_tools == (("/opt/manager", "{file}"),)
    assert node.shell_tools[CardKind.DFL] == ("/opt/shell", "{file}")
    assert node.shell_tools[CardKind.XRT] == default.shell_tools[CardKind.XRT]
    assert (node.sysfs, node.dev) == (default.sysfs, default.dev)


def test_simulated_cards_accept_their_example_bitstreams_and_no_others(tmp_path: Path) -> None:
    _, settings = choose_hardware(read_settings(""), "always", tmp_path)
    examples = [path for path in Path(settings.bitstreams.folder).iterdir() if path.suffix == ".gbs"]
    assert len(examples) == 2
    assert set(settings.bitstreams.digests) == {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in examples
    }
    assert not settings.bitstreams.allow_unsigned
