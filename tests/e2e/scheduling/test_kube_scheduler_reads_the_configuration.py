"""A real kube-scheduler knows each field of its configuration, and understands it as it is meant."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dradriver.extender.scheduler_config import KubeSchedulerSettings, build_config
from tests.e2e.bed.programs import missing, program
from tests.unit.admission.certificates import make_pair


def understood(settings: KubeSchedulerSettings, folder: Path) -> dict[str, Any]:
    """Return the configuration with all defaults, as kube-scheduler writes it. Unknown fields are errors."""
    (given := folder / "config.yaml").write_text(yaml.safe_dump(build_config(settings)))
    written = folder / "written.yaml"
    command = [str(program("kube-scheduler")), f"--config={given}", f"--write-config-to={written}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert written.exists(), done.stderr
    return dict(yaml.safe_load(written.read_text()))


def test_mutual_tls_and_two_profiles_are_understood(tmp_path: Path) -> None:
    if reason := missing("kube-scheduler"):
        pytest.skip(reason)
    cert_file, key_file = make_pair("kube-scheduler").write(tmp_path)
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    (kubeconfig := tmp_path / "kubeconfig").write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )  # fmt: skip
    settings = KubeSchedulerSettings(
        url="https://127.0.0.1:9444", scheduler_names=("a", "b"), prefers_devices=True,
        kubeconfig=str(kubeconfig), ca_file=str(cert_file), cert_file=str(cert_file), key_file=str(key_file),
    )  # fmt: skip
    given, read = build_config(settings), understood(settings, tmp_path)
    assert [each["schedulerName"] for each in read["profiles"]] == ["a", "b"]
    for profile in read["profiles"]:
        assert [each["name"] for each in profile["plugins"]["multiPoint"]["disabled"]] == ["DynamicResources"]
        enabled = {each["name"] for each in profile["plugins"]["multiPoint"]["enabled"]}
        assert "NodeResourcesFit" in enabled
    assert read["percentageOfNodesToScore"] == 100
    assert {**read["leaderElection"]} == given["leaderElection"]
    for entry, wanted in zip(read["extenders"], given["extenders"], strict=True):
        # kube-scheduler omits false, and writes durations in its own form.
        assert {**entry, "ignorable": False, "httpTimeout": ""} == {**wanted, "httpTimeout": ""}
    assert [each["httpTimeout"] for each in read["extenders"]] == ["5s", "10m30s"]
    assert (read["clientConnection"]["qps"], read["clientConnection"]["burst"]) == (500, 1000)
