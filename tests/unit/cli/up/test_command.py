"""`dradriver up` rejects invalid options before it starts."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.allocator import ORDERED, PACKED, Order
from dradriver.cli.up.summary import copy_kubeconfig, describe_missing_drivers, list_apply_commands
from dradriver.errors import UsageError

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--driver", "lop"), 1, "driver 'lop' is not installed"),
        (("--feature-gates", "DRATypo=true"), 2, "feature gate 'DRATypo' is unknown"),
        (("--feature-gates", "DynamicResourceAllocation=false"), 2, "DynamicResourceAllocation is always on"),
        (("--feature-gates", "DRAAdminAccess"), 2, "write NAME=true or NAME=false"),
        (("--nodes", "0"), 2, "--nodes"),
        (("--runtime", "docker"), 2, "--runtime"),
        (("--budget", "0"), 2, "--budget"),
        (("--order", "random"), 2, "'random' is not one of 'ordered', 'packed'"),
        (("--scoring", "Fullest:example.com/gpu"), 2, "LeastAllocated or MostAllocated"),
        (("--scoring", "MostAllocated"), 2, "LeastAllocated or MostAllocated"),
        (("--scoring", "MostAllocated:cpu=1"), 2, "'cpu=1': must be an extended resource"),
        (("--scoring", "MostAllocated:example.com/gpu=0"), 2, "weight of at least 1"),
        (("--binding-timeout", "0"), 2, "--binding-timeout"),
    ],
)
def test_a_wrong_option_is_reported_and_nothing_is_created(
    dradriver: Command, tmp_path: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    result = dradriver("up", "--data", str(tmp_path / "data"), *options)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert not (tmp_path / "data").exists()


def test_the_option_order_is_passed_to_the_scheduler(
    dradriver: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Order] = []

    def cluster(*_: object, order: Order, **__: object) -> None:
        orders.append(order)
        raise UsageError("no cluster here")

    monkeypatch.setattr("dradriver.cluster.EmbeddedCluster", cluster)
    for options in ((), ("--order", "ordered"), ("--order", "packed")):
        assert "no cluster here" in dradriver("up", "--data", str(tmp_path / "data"), *options).stderr
    assert orders == [ORDERED, ORDERED, PACKED]


def test_the_kubeconfig_of_another_cluster_is_never_overwritten(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("current-context: dradriver\n")
    theirs.write_text("current-context: production\n")
    with pytest.raises(UsageError, match="choose another file"):
        copy_kubeconfig(ours, theirs)
    assert theirs.read_text() == "current-context: production\n"
    new = tmp_path / "folder/new"
    copy_kubeconfig(ours, new)
    copy_kubeconfig(ours, new)
    assert new.read_text() == ours.read_text()
    assert new.stat().st_mode & 0o077 == 0


def test_a_driver_of_claims_that_does_not_run_is_reported_with_its_option() -> None:
    assert describe_missing_drivers(["loop.example.com"], ["loop"]) == []
    assert describe_missing_drivers(["loop.example.com", "x.example.com"], []) == [
        "warning: claims have devices of driver loop.example.com, which does not run: add --driver loop",
        "warning: claims have devices of driver x.example.com, which does not run: it is not installed",
    ]


def test_a_folder_that_is_not_a_clusters_is_not_removed(dradriver: Command, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.touch()
    result = dradriver("up", "--data", str(tmp_path), "--fresh")
    assert result.exit_code == 2
    assert f"--fresh: {tmp_path} is not the data folder of a cluster, so nothing is removed" in result.stderr
    assert [*tmp_path.iterdir()] == [photo]


def test_fresh_names_what_it_removes_before_the_cluster_starts(
    dradriver: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "nodes").mkdir()

    def cluster(*_: object, **__: object) -> None:
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        raise UsageError("no cluster here")

    monkeypatch.setattr("dradriver.cluster.EmbeddedCluster", cluster)
    result = dradriver("up", "--data", str(tmp_path), "--fresh")
    removed = rf"\d\d:\d\d:\d\d removed {re.escape(str(tmp_path))}/nodes \(prepared claims, CDI specs and logs"
    assert re.search(removed, result.stderr)
    assert "no cluster here" in result.stderr


def test_the_command_to_apply_is_named_once_for_each_package() -> None:
    commands = list(list_apply_commands(["loop", "fabric-cxl-pools", "fabric-cxl"]))
    assert [re.sub(r"^.* manifests", "manifests", each) for each in commands] == [
        "manifests loop | kubectl apply -f -",
        "manifests fabric-cxl-pools | kubectl apply -f -",
    ]


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("/somewhere/.venv/bin/dradriver", "/somewhere/.venv/bin/dradriver"),
        (".venv/bin/dradriver", ".venv/bin/dradriver"),
        ("/src/dradriver/cli/__main__.py", f"{sys.executable} -m dradriver.cli"),
    ],
)
def test_the_command_is_the_program_that_the_user_called(
    monkeypatch: pytest.MonkeyPatch, program: str, command: str
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    assert list(list_apply_commands(["loop"])) == [f"{command} manifests loop | kubectl apply -f -"]
