"""The chart in `packaging/chart`, and helm to render and install it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dradriver.kube.definitions import read_definitions
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.programs import missing, program

CHART: Final = Path(__file__).parents[3] / "packaging" / "chart"
VALUES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
"""Files of values that the checks go through; `foreign-apis` needs APIs that Kubernetes itself lacks."""

Json = dict[str, Any]
Manifests = list[Json]


class HelmError(Exception):
    """Helm failed; the message is its output."""


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm for a cluster, or without one for commands that need none.

    Attributes:
        kubeconfig: whose cluster; None: none.
        namespace: where releases go.
        chart: the folder or the archive of the chart.
    """

    kubeconfig: Path | None = None
    namespace: str = "dradriver"
    chart: Path = CHART

    def lint(self, *arguments: str) -> str:
        """Run `helm lint --strict`."""
        return self._run("lint", "--strict", str(self.chart), *arguments)

    def template(self, *arguments: str, release: str = "release") -> Manifests:
        """Return the objects that a release would have."""
        text = self._run("template", release, str(self.chart), *arguments)
        return [document for document in yaml.safe_load_all(text) if document]

    def install(self, release: str, *arguments: str) -> str:
        """Install a release; create its namespace if needed."""
        return self._run("install", release, str(self.chart), "--create-namespace", *arguments)

    def upgrade(self, release: str, *arguments: str) -> str:
        """Upgrade a release."""
        return self._run("upgrade", release, str(self.chart), *arguments)

    def rollback(self, release: str) -> str:
        """Return a release to its previous revision."""
        return self._run("rollback", release)

    def uninstall(self, release: str) -> str:
        """Remove a release; a no-op if there is none."""
        return self._run("uninstall", release, "--ignore-not-found", "--wait")

    def delete_definitions(self) -> None:
        """Delete the definitions of classic DRA, which an uninstallation keeps."""
        names = [definition["metadata"]["name"] for definition in read_definitions()]
        kubectl = (str(program("kubectl")), f"--kubeconfig={self.kubeconfig}")
        subprocess.run(
            (*kubectl, "delete", "crd", "--ignore-not-found", *names), capture_output=True, check=True
        )

    def _run(self, *arguments: str) -> str:
        access = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else ["--kubeconfig=/nonexistent"]
        command = [str(program("helm")), *arguments, f"--namespace={self.namespace}", *access]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HelmError(f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout


def set_values(values: Mapping[str, object]) -> list[str]:
    """Return values as options of helm, by their dotted names; the caller escapes dots in a name."""
    return [
        option for name, value in values.items() for option in ("--set-json", f"{name}={json.dumps(value)}")
    ]


def find_manifest(manifests: Sequence[Json], kind: str, name: str = "") -> Json:
    """Return the one object of a kind, or with that name."""
    found = [each for each in manifests if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name}: {[each['metadata']['name'] for each in found]}"
    return found[0]


def on_bed(bed: Bed, namespace: str) -> Helm:
    """Return helm for a cluster; skip the test if helm is missing."""
    if reason := missing("helm"):
        pytest.skip(reason)
    return Helm(bed.credentials.write_kubeconfig(bed.url, "admin"), namespace)
