"""The examples and tables of docs/drivers/fabric-cxl.md agree with the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml
from click.testing import CliRunner

from dradriver.cli import main
from dradriver_fabric_cxl import FabricPoolsDriver, MemoryConfig
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.node import settings as node_settings
from dradriver_fabric_cxl.pools import settings as pools_settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/drivers/fabric-cxl.md").read_text()
CONTROLLED, CLAIM, MANAGER = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MANIFESTS = sorted((ROOT / "drivers/fabric_cxl/manifests").glob("*.yaml"))
DRIVER = "dradriver_fabric_cxl:FabricCxlDriver"


def validate(*paths: Path) -> tuple[int, str]:
    files = [argument for path in paths for argument in ("-f", str(path))]
    done = CliRunner().invoke(main, ["validate", "--driver", DRIVER, *files])
    return done.exit_code, done.output


def table(heading: str) -> set[str]:
    """Return the first words of the rows of the first table after a heading."""
    rows = PAGE.partition(heading)[2].partition("\n## ")[0]
    return {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", rows, re.MULTILINE)
        for name in re.findall(r"`([\w.]+)`", row)
    }


def names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_every_setting_is_in_its_table() -> None:
    manager = {f"manager.{name}" for name in names(pools_settings.ManagerSettings)}
    assert table("## Settings of `fabric-cxl-pools`") - {"folder"} == manager | (
        names(pools_settings.PoolsSettings) - {"manager"}
    )
    assert table("## Settings of `fabric-cxl`\n") == names(node_settings.CxlNodeSettings)


def test_the_settings_of_the_emulator_are_taken() -> None:
    manager = pools_settings.read_settings(
        yaml.safe_dump({"manager": yaml.safe_load(MANAGER)["manager"]})
    ).manager
    assert manager is not None


def test_the_claim_and_the_manifests_are_valid(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM)
    (tmp_path / "controlled.yaml").write_text(CONTROLLED)
    code, output = validate(tmp_path / "claim.yaml", tmp_path / "controlled.yaml", *MANIFESTS)
    assert code == 0, output


def test_every_parameter_of_the_controller_is_in_its_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `Controller\w+\.parameters`[^|]* \| `(\w+)` \|", PAGE, re.MULTILINE)
    kinds = (*FabricPoolsDriver.class_configs, *FabricPoolsDriver.claim_configs)
    assert set(rows) == {(kind.kind, field) for kind in kinds for field in names(kind)}


def test_the_parameters_of_the_controller_in_the_page_and_the_manifests_are_taken() -> None:
    kinds = (*FabricPoolsDriver.class_configs, *FabricPoolsDriver.claim_configs)
    texts = [CONTROLLED, *(path.read_text() for path in MANIFESTS)]
    found = [given for text in texts for each in yaml.safe_load_all(text) for given in list_parameters(each)]
    assert len(found) == 4
    for given in found:
        name = given.pop("kind")
        kind = next(each for each in kinds if each.kind == name)
        assert given.pop("apiVersion") == kind.api_version
        msgspec.convert(given, kind)


def list_parameters(body: object) -> Iterator[dict[str, object]]:
    """Yield the parameters for the controller in an object."""
    if isinstance(body, dict):
        if body.get("kind") in {"ControllerClass", "ControllerClaim"}:
            yield body["parameters"]
        for each in body.values():
            yield from list_parameters(each)
    elif isinstance(body, list):
        for each in body:
            yield from list_parameters(each)


def test_a_wrong_parameter_is_found_by_validate(tmp_path: Path) -> None:
    claim = yaml.safe_load(CLAIM)
    claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]["mode"] = "ram"
    (tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))
    code, output = validate(tmp_path / "claim.yaml")
    assert code == 1
    assert "mode must be devdax or system-ram, not 'ram'" in output


def test_every_mode_is_in_the_table() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)`( \(default\))? \| .* container|^\| `([\w-]+)`( \(default\))? \|", PAGE, re.MULTILINE
    )
    modes = {row[2]: bool(row[3]) for row in rows}
    assert {each.value: each.value == MemoryConfig().mode for each in MemoryMode}.items() <= modes.items()


def test_every_reason_of_a_failure_is_in_the_table() -> None:
    section = PAGE.partition("| reason of the failure condition |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`([A-Z]\w+)`", section))
    code = "".join(path.read_text() for path in Path(node_settings.__file__).parents[1].rglob("*error*.py"))
    code += "".join(path.read_text() for path in Path(node_settings.__file__).parents[1].glob("pools/*.py"))
    assert (
        set(re.findall(r'reason="(\w+)"', code)) | set(re.findall(r'(?:Error[,:] |_refuse\()"(\w+)"', code))
        <= documented
    )
    assert documented >= {"AttachTimeout", "InvalidConfig", "NodeNotReady", "NotOneNode"}, "reasons of the SDK"
