"""The chart's alerts and dashboards, and the documentation of them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.chart.helm import CHART, Helm, find_manifest, set_values

ROOT: Final = Path(__file__).parents[2]
OBSERVE: Final = (ROOT / "docs" / "observe.md").read_text()
ALERTS: Final = CHART / "files" / "prometheus" / "alerts.yaml"
BOARDS: Final = sorted((CHART / "files" / "dashboards").glob("*.json"))
LOOP: Final = {"drivers.loop.enabled": True, "image.repository": "registry.example.com/d"}


def test_documentation_lists_each_alert_with_its_expression_and_time() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    minutes = {each["alert"]: each["for"].removesuffix("m") for each in group["rules"] if "for" in each}
    rows = re.findall(r"^\| `(\w+)` \| `(.*)`(?: for (\d+) minutes)? \| .* \|$", OBSERVE, re.MULTILINE)
    documented = {name: (expr.replace("\\|", "|"), time) for name, expr, time in rows if name[:4] == "Drad"}
    assert documented == {
        each["alert"]: (each["expr"], minutes.get(each["alert"], "")) for each in group["rules"]
    }


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_by_any_grafana(path: Path) -> None:
    board = json.loads(path.read_text())
    panels: list[dict[str, Any]] = board["panels"]
    assert "id" not in board
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {target["datasource"]["uid"] for panel in panels for target in panel.get("targets", ())} == {
        "${datasource}"
    }
    variables = {each["name"] for each in board["templating"]["list"]}
    used = set(re.findall(r"\$(\w+)", " ".join(t["expr"] for p in panels for t in p.get("targets", ()))))
    assert used - {"__rate_interval"} == variables - {"datasource"}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_panels_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_documentation_names_each_dashboard() -> None:
    assert all(f"| `{path.name}` |" in OBSERVE for path in BOARDS)


@pytest.mark.e2e
def test_a_prometheus_rule_has_the_alerts_unchanged(helm: Helm) -> None:
    values = {**LOOP, "prometheusRule": {"mode": "always", "labels": {"release": "monitoring"}}}
    rule = find_manifest(helm.template(*set_values(values)), "PrometheusRule")
    assert rule["metadata"]["name"] == "release-dradriver-alerts"
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("mode", "there", "expected"), [("auto", False, 0), ("auto", True, 1), ("never", True, 0)]
)
def test_the_rule_follows_the_api_of_the_operator(helm: Helm, mode: str, there: bool, expected: int) -> None:
    apis = ("--api-versions", "monitoring.coreos.com/v1") if there else ()
    manifests = helm.template(*set_values({**LOOP, "prometheusRule.mode": mode}), *apis)
    assert [each["kind"] for each in manifests].count("PrometheusRule") == expected


@pytest.mark.e2e
def test_each_dashboard_is_a_config_map_for_the_sidecar(helm: Helm) -> None:
    values = {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Devices"}}}
    manifests = helm.template(*set_values(values))
    assert [each["metadata"]["name"] for each in manifests] == [
        f"release-dradriver-dashboard-{path.stem}" for path in BOARDS
    ]
    for each, path in zip(manifests, BOARDS, strict=True):
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "Devices"}
        assert each["data"] == {f"dradriver-{path.name}": path.read_text()}
    assert not [each for each in helm.template(*set_values(LOOP)) if each["kind"] == "ConfigMap"]
