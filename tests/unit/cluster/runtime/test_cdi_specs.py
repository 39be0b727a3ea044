"""Edits of devices, read from the CDI specs of a folder."""

from pathlib import Path

import pytest

from dradriver.cluster.runtime.base import ContainerStartError
from dradriver.cluster.runtime.cdi_specs import find_edits
from dradriver.model.cdi import ContainerEdits


def test_edits_of_the_spec_come_first_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "{cdiVersion: 0.3.0, kind: example.com/card, containerEdits: {env: [ALL=1]}, devices: ["
        "{name: one, containerEdits: {env: [ONE=1]}}, {name: two, containerEdits: {env: [TWO=1]}}]}"
    )
    edits = find_edits(tmp_path, ["example.com/card=two", "example.com/card=one", "example.com/card=two"])
    assert edits.env == ("ALL=1", "TWO=1", "ONE=1")


def test_an_unreadable_spec_hides_no_other_and_is_named_when_a_device_is_missing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "good.json").write_text(
        '{"cdiVersion": "0.3.0", "kind": "a.com/card", "devices": [{"name": "x", "containerEdits": {}}]}'
    )
    assert find_edits(tmp_path, ["a.com/card=x"]) == ContainerEdits()
    with pytest.raises(ContainerStartError, match=r"card=y is in no CDI spec of .*broken\.json"):
        find_edits(tmp_path, ["a.com/card=y"])
