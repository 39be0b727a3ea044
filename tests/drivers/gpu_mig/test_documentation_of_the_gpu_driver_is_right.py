"""The examples and tables of docs/drivers/gpu-mig.md agree with the code."""

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from dradriver.cli import main
from dradriver_gpu_mig.card.simulator import CATALOG
from dradriver_gpu_mig.health.recovery_actions import RECOVERIES
from dradriver_gpu_mig.health.xids import get_default_effect
from dradriver_gpu_mig.settings import GpuSettings, read_settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/drivers/gpu-mig.md").read_text()
SETTINGS, CLAIM = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_settings_are_taken() -> None:
    assert read_settings(SETTINGS, "node") != read_settings(SETTINGS, "old-1")


def test_every_setting_is_in_the_table() -> None:
    section = PAGE.partition("| setting | default |")[2].partition("\n## ")[0]
    documented = {name.partition(".")[0] for name in re.findall(r"^\| `([a-zA-Z.]+)`", section, re.MULTILINE)}
    assert documented == set(GpuSettings.__struct_encode_fields__)


def test_the_claim_and_the_manifests_are_valid(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM)
    manifests = sorted((ROOT / "drivers/gpu_mig/manifests").glob("*.yaml"))
    files = [argument for path in [tmp_path / "claim.yaml", *manifests] for argument in ("-f", str(path))]
    done = CliRunner().invoke(main, ["validate", "--driver", "dradriver_gpu_mig:GpuDriver", *files])
    assert done.exit_code == 0, done.output


def test_a_wrong_parameter_is_found_by_validate(tmp_path: Path) -> None:
    claim = yaml.safe_load(CLAIM)
    claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]["sharing"]["strategy"] = "Turns"
    (tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))
    done = CliRunner().invoke(
        main, ["validate", "--driver", "dradriver_gpu_mig:GpuDriver", "-f", str(tmp_path / "claim.yaml")]
    )
    assert done.exit_code == 1
    assert "sharing.strategy" in done.output


def test_every_simulated_card_is_named() -> None:
    assert all(f"`{card}`" in PAGE for card in CATALOG)


def test_the_numbers_of_errors_are_those_in_the_code() -> None:
    rows = re.findall(r"^\| an XID after which .*?\(([0-9, ]+), \.\.\.\)", PAGE, re.MULTILINE)
    effects = [{get_default_effect(int(number)) for number in row.split(",")} for row in rows]
    assert effects == [{"Ignore"}, {"NoExecute"}]


def test_every_recovery_action_is_in_the_table() -> None:
    section = PAGE.partition("| recovery action |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| [^|]+ \| ((?:`[a-z0-9-]+`(?:, )?)+) \| `(\w+)`", section, re.MULTILINE)
    told = {(value, effect) for values, effect in rows for value in re.findall(r"`([a-z0-9-]+)`", values)}
    assert told == {(recovery.value, recovery.effect) for recovery in RECOVERIES.values()}
