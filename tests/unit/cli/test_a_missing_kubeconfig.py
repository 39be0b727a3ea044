"""Without a kubeconfig, the error contains the next step."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("KUBECONFIG", "DRADRIVER_KUBECONFIG", "KUBERNETES_SERVICE_HOST", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_kubeconfig_of_the_embedded_cluster_is_named_if_it_exists(dradriver: Command, home: Path) -> None:
    kubeconfig = home / ".local/share/dradriver/kubeconfig"
    kubeconfig.parent.mkdir(parents=True)
    kubeconfig.touch()
    result = dradriver("get", "pods")
    assert result.exit_code == 1
    assert f"export KUBECONFIG={kubeconfig} for the cluster of `dradriver up`" in result.stderr


def test_otherwise_the_command_that_starts_a_cluster_is_named(dradriver: Command, home: Path) -> None:
    assert "no such file: `dradriver up` starts a cluster" in dradriver("get", "pods").stderr


def test_a_file_that_the_user_names_gets_no_such_advice(dradriver: Command, home: Path) -> None:
    result = dradriver("get", "pods", "--kubeconfig", str(home / "gone"))
    assert result.stderr.strip().endswith("gone: no such file")
