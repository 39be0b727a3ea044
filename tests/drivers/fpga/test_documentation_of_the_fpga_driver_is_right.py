"""The examples and tables of docs/drivers/fpga.md agree with the code."""

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from dradriver.cli import main
from dradriver_fpga.card import FaultKind, Mechanism
from dradriver_fpga.card.simulator import CATALOG
from dradriver_fpga.offer import build_pool, list_offers
from dradriver_fpga.settings import BitstreamRules, FpgaSettings, read_settings
from tests.drivers.fpga.nodes import Node

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/drivers/fpga.md").read_text()
CLAIM, POLICY, SETTINGS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MANIFESTS = sorted((ROOT / "drivers/fpga/manifests").glob("*.yaml"))


def validate(*paths: Path) -> tuple[int, str]:
    files = [argument for path in paths for argument in ("-f", str(path))]
    done = CliRunner().invoke(main, ["validate", "--driver", "dradriver_fpga:FpgaDriver", *files])
    return done.exit_code, done.output


def test_the_settings_are_taken() -> None:
    assert read_settings(SETTINGS).shells
    assert len(read_settings(POLICY).bitstreams.policy) == 2


def test_every_setting_is_in_the_table() -> None:
    section = PAGE.partition("| setting | default |")[2]
    documented = set(re.findall(r"^\| `([a-zA-Z.]+)`", section, re.MULTILINE))
    rules = {f"bitstreams.{name}" for name in BitstreamRules.__struct_encode_fields__}
    assert documented == rules | {"host.tools"} | set(FpgaSettings.__struct_encode_fields__) - {"bitstreams"}


def test_every_attribute_is_in_the_table(node: Node) -> None:
    section = PAGE.partition("| attribute |")[2].partition("\n\n")[0]
    published = build_pool([list_offers(card, ()) for card in node.controls.cards()], {}).devices
    names = {str(name).rpartition("/")[2] for device in published for name in device.attributes}
    assert not {name for name in names if f"{name}`" not in section}


def test_the_claim_and_the_manifests_are_valid(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM)
    code, output = validate(tmp_path / "claim.yaml", *MANIFESTS)
    assert code == 0, output


def test_a_wrong_parameter_is_found_by_validate(tmp_path: Path) -> None:
    claim = yaml.safe_load(CLAIM)
    claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]["bitstream"]["sha256"] = "abc"
    (tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))
    code, output = validate(tmp_path / "claim.yaml")
    assert code == 1
    assert "sha256 must be 64 hex digits" in output


def test_the_cards_of_the_simulator_are_named() -> None:
    assert not [name for name in CATALOG if f"`{name}`" not in PAGE]


def test_the_tests_of_the_comparison_exist() -> None:
    section = PAGE.partition("## Compared with the device plugins")[2].partition("\n## ")[0]
    paths = re.findall(r"\((\.\./\.\./[^)]+)\)", section)
    assert len(paths) > 20
    assert not [path for path in paths if not (ROOT / "docs/drivers" / path).exists()]
    rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[2:]
    assert not [row for row in rows if not row.startswith("**") and "|  |" in f"|{row}|"]


def test_every_kind_of_fault_is_in_the_table() -> None:
    section = PAGE.partition("## Health")[2].partition("\n## ")[0]
    values = re.findall(r"^\|[^|]+\| `([a-z-]+)` \|", section, re.MULTILINE)
    kinds = [kind.name.lower().replace("_", "-") for kind in FaultKind]
    assert list(dict.fromkeys(values)) == kinds, "the table is in the order of severity"


def test_every_mechanism_is_in_the_table() -> None:
    section = PAGE.partition("## Mechanisms")[2].partition("\n## ")[0]
    rows = section.count("\n| ") - 1
    assert rows == len(Mechanism) + 2, "programs for regions, for shells and for whole FPGAs are three rows"
