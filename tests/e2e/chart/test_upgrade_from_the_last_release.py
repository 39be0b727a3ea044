"""The chart replaces the chart of the last release, with all of its objects, and the other way round.

`last_release/` has the chart that the last release published. Before the first release, it is the chart as it
was before alerts and dashboards were added.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conformance.apiserver.suite import Api
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import CHART, Helm, on_bed

NAMESPACE: Final = "upgrade"
RELEASE: Final = "fleet"
(LAST,) = sorted(Path(__file__).with_name("last_release").glob("dradriver-*.tgz"))


@pytest.fixture(scope="module")
def helm(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    yield helm
    helm.uninstall(RELEASE)


def write_values(folder: Path, chart: Path) -> Path:
    """Write the values that a chart knows, without the webhook, which does not run here; return the path."""
    with tarfile.open(chart) as archive:
        defaults = archive.extractfile("dradriver/values.yaml")
        assert defaults is not None
        known = yaml.safe_load(defaults)
    values = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text())
    values["drivers"]["loop"]["webhook"]["enabled"] = False
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if name in known}))
    return path


async def read_workloads(real: Api) -> dict[str, dict[str, Any]]:
    """Return the DaemonSets and Deployments of the release by their names."""
    found: dict[str, dict[str, Any]] = {}
    for plural in ("daemonsets", "deployments"):
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}"
        found |= {each["metadata"]["name"]: each for each in (await real.call("GET", path)).json["items"]}
    return found


async def test_workloads_survive_an_upgrade_and_a_rollback(real: Api, helm: Helm, tmp_path: Path) -> None:
    """A selector cannot change, so an upgrade must keep each workload of the other chart."""
    values = ("-f", str(write_values(tmp_path, LAST)))
    replace(helm, chart=LAST).install(RELEASE, *values)
    before = await read_workloads(real)
    helm.upgrade(RELEASE, *values, "--set", "dashboards.enabled=true")
    after = await read_workloads(real)
    assert {name: each["metadata"]["uid"] for name, each in before.items()}.items() <= {
        name: each["metadata"]["uid"] for name, each in after.items()
    }.items()
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    assert "fleet-dradriver-dashboard-drivers" in {
        each["metadata"]["name"] for each in (await real.call("GET", path)).json["items"]
    }
    helm.rollback(RELEASE)
    rolled_back = await read_workloads(real)
    assert {name: each["spec"] for name, each in rolled_back.items()} == {
        name: each["spec"] for name, each in before.items()
    }
