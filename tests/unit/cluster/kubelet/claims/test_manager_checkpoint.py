"""The checkpoint file of prepared claims."""

import errno
from pathlib import Path

import pytest

from dradriver.cluster.kubelet.claims import manager
from dradriver.cluster.kubelet.claims.claim_records import (
    CheckpointedClaim,
    CheckpointedDevice,
    encode_records,
    load_records,
    write_checkpoint,
)
from tests.conformance.kubelet.lab import Lab

DEVICE = CheckpointedDevice("pool", "gpu-0", "", ["r0"], ["example.com/gpu=a"])


def test_a_checkpoint_keeps_claims_but_not_that_they_were_prepared(tmp_path: Path) -> None:
    record = CheckpointedClaim("uid", "ns", "claim", ["pod"], {"d": [DEVICE]}, prepared=True, unpreparing=True)
    write_checkpoint(tmp_path / "state", encode_records([record]))
    assert load_records(tmp_path / "state") == [
        CheckpointedClaim("uid", "ns", "claim", ["pod"], {"d": [DEVICE]})
    ]


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert load_records(tmp_path / "state") == []


@pytest.mark.parametrize("text", ["", "{", '{"checksum": 1, "data": "[]"}', "[]"])
def test_a_broken_file_is_set_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text)
    assert load_records(tmp_path / "state") == []
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["state.unreadable"]


async def test_a_full_disk_fails_that_prepare_and_calls_no_driver(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with lab.registered() as driver:
        monkeypatch.setattr(manager, "write_checkpoint", full)
        await lab.claim("claim")
        await lab.pod("pod", "claim")
        await lab.event("pod", "FailedPrepareDynamicResources", "No space left on device")
        assert driver.prepares == []
        monkeypatch.undo()
        await lab.phase("pod", "Running")
