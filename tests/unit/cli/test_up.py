"""`dradriver up` refuses what it can't do before it starts anything."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.allocator import ORDERED, PACKED, Order
from dradriver.cli.up import _copy_kubeconfig, missing_drivers
from dradriver.errors import UsageError

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--driver", "lop"), 1, "no driver 'lop' is installed"),
        (("--feature-gates", "DRATypo=true"), 2, "feature gate 'DRATypo' is unknown"),
        (("--feature-gates", "DRAAdminAccess"), 2, "write NAME=true or NAME=false"),
        (("--nodes", "0"), 2, "--nodes"),
        (("--runtime", "docker"), 2, "--runtime"),
        (("--max-steps", "0"), 2, "--max-steps"),
        (("--order", "random"), 2, "'random' is not one of 'ordered', 'packed'"),
        (("--scoring", "Fullest:example.com/gpu"), 2, "LeastAllocated or MostAllocated"),
        (("--scoring", "MostAllocated"), 2, "LeastAllocated or MostAllocated"),
        (("--scoring", "MostAllocated:cpu=1"), 2, "'cpu=1' is no extended resource"),
        (("--scoring", "MostAllocated:example.com/gpu=0"), 2, "weight of at least 1"),
        (("--binding-timeout", "0"), 2, "--binding-timeout"),
    ],
)
def test_a_wrong_option_is_said_and_nothing_is_made(
    dradriver: Command, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    result = dradriver("up", "--data", str(tmp_path / "data"), *words)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert not (tmp_path / "data").exists()


def test_the_order_that_is_asked_for_is_the_schedulers(
    dradriver: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Order] = []

    def cluster(*_: object, order: Order, **__: object) -> None:
        orders.append(order)
        raise UsageError("no cluster here")

    monkeypatch.setattr("dradriver.cluster.EmbeddedCluster", cluster)
    for words in ((), ("--order", "ordered"), ("--order", "packed")):
        assert "no cluster here" in dradriver("up", "--data", str(tmp_path / "data"), *words).stderr
    assert orders == [ORDERED, ORDERED, PACKED]


def test_the_kubeconfig_of_another_cluster_is_never_overwritten(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("current-context: dradriver\n")
    theirs.write_text("current-context: production\n")
    with pytest.raises(UsageError, match="choose another file"):
        _copy_kubeconfig(ours, theirs)
    assert theirs.read_text() == "current-context: production\n"
    new = tmp_path / "folder/new"
    _copy_kubeconfig(ours, new)
    _copy_kubeconfig(ours, new)
    assert new.read_text() == ours.read_text()
    assert new.stat().st_mode & 0o077 == 0


def test_a_driver_that_claims_use_and_nobody_starts_is_said_with_its_option() -> None:
    assert missing_drivers(["loop.example.com"], ["loop"]) == []
    assert missing_drivers(["loop.example.com", "x.example.com"], []) == [
        "Claims hold devices of loop.example.com, which does not run here: start with --driver loop",
        "Claims hold devices of x.example.com, which does not run here: it is not installed",
    ]
