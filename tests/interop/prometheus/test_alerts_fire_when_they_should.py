"""Prometheus accepts the alerts of the chart, and each alert fires in its case and in no other one."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.bed import programs
from tests.e2e.chart.helm import CHART

pytestmark = pytest.mark.skipif(bool(programs.missing("promtool")), reason=programs.missing("promtool") or "-")

ALERTS: Final = CHART / "files" / "prometheus" / "alerts.yaml"
CASES: Final = Path(__file__).with_name("alerts_test.yaml")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [programs.program("promtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_cases(folder: Path, alerts: str) -> subprocess.CompletedProcess[str]:
    (folder / "alerts.yaml").write_text(alerts)
    return promtool("test", "rules", shutil.copy(CASES, folder))


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def test_prometheus_accepts_the_rules() -> None:
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"SUCCESS: {len(rules())} rules found" in checked.stdout


def test_each_alert_fires_in_its_case_and_in_no_other_one(tmp_path: Path) -> None:
    done = run_cases(tmp_path, ALERTS.read_text())
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = [test for case in yaml.safe_load(CASES.read_text())["tests"] for test in case["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {test["alertname"] for test in tests if test.get("exp_alerts")} == names
    assert {test["alertname"] for test in tests if not test.get("exp_alerts")} == names


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules()])
def test_the_cases_notice_an_alert_that_never_fires(tmp_path: Path, alert: str) -> None:
    changed = re.sub(rf"(alert: {alert}\n +expr:) .*", r"\1 vector(1) < 0", ALERTS.read_text())
    assert changed != ALERTS.read_text()
    assert run_cases(tmp_path, changed).returncode != 0
