"""A driver that breaks a rule fails the contract's test of that rule."""

from pathlib import Path

import pytest

import dradriver as dra
from dradriver.errors import DraError
from dradriver.testing import CrashPoint, DriverContract, Harness
from dradriver.testing.contract import _find_incompatible, _find_overdraw
from tests.unit.testing.drivers import Forgetful, Misspelt, Once, Partitions, Plain, Strict, Unstable


@pytest.mark.parametrize(
    ("driver", "test"),
    [
        (Unstable, "test_names_of_pools_and_devices_are_stable"),
        (Misspelt, "test_its_slices_are_what_an_api_server_accepts"),
        (Forgetful, "test_every_device_of_a_claim_is_answered_and_its_edits_are_valid"),
        (Strict, "test_unpreparing_a_claim_that_nobody_knows_is_fine"),
    ],
)
def test_a_broken_rule_fails_its_test(driver: type[dra.Driver], test: str, tmp_path: Path) -> None:
    with Harness(driver, tmp_path) as harness, pytest.raises((AssertionError, DraError)):
        getattr(DriverContract(), test)(harness)


def test_a_driver_that_prepares_only_once_fails_after_a_kill(tmp_path: Path) -> None:
    with Harness(Once, tmp_path) as harness:
        claim = harness.allocate_blindly(("node-1", "a"))
        with pytest.raises(DraError, match="prepared already"):
            DriverContract().test_a_prepare_that_was_killed_is_finished_by_the_next(
                harness, claim, CrashPoint.PREPARE_DRIVER_DONE
            )


def test_conflicts_follow_the_rules_of_the_keps(tmp_path: Path) -> None:
    with Harness(Partitions, tmp_path / "card") as harness:
        assert _find_overdraw(harness) == ([("node-1", "half-0"), ("node-1", "half-1")], ("node-1", "whole"))
        assert _find_incompatible(harness) == ([("node-1", "half-0")], ("node-1", "view"))
    with Harness(Plain, tmp_path / "plain") as harness:
        assert _find_overdraw(harness) is None
        assert _find_incompatible(harness) is None
