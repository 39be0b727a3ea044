"""A record of a later version of the driver is held: its device is not handed out, and nothing is destroyed."""

import json
from pathlib import Path

import pytest

from dradriver import DraError
from tests.drivers.gpu_mig.nodes import GpuHarness

DEVICE = "gpu-0000-07-00-0-mig-3g-20gb-4"
HELD = ("gpu.nvidia.com/in-use", "later-version", "NoSchedule")


def rewrite(node: GpuHarness, **fields: object) -> Path:
    path = node.driver.data_dir / "devices" / f"{DEVICE}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"version": 99}, "its version is 99"), ({"shape": "round"}, "it has the unknown fields shape")],
)
def test_the_device_of_a_later_record_is_held(
    tmp_path: Path, fields: dict[str, object], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        path = rewrite(node, **fields)
        written = path.read_bytes()
        node.restart()
        assert HELD in node.taints()[DEVICE]
        assert reason in caplog.text
        node.unprepare(claim)  # the pod can end; the later version destroys the instance
        with pytest.raises(DraError, match=reason):
            node.prepare(node.allocate_device(DEVICE, name="another"))
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        assert path.read_bytes() == written


def test_a_record_without_a_version_is_read(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        path = node.driver.data_dir / "devices" / f"{DEVICE}.json"
        old = json.loads(path.read_text())
        del old["version"], old["uuid"]
        path.write_text(json.dumps(old))
        node.restart()
        assert node.taints() == {}
        node.unprepare(claim)
        assert node.first_gpu_instances == []
        assert not path.exists()


def test_an_instance_with_another_uuid_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        (record,) = node.records()
        assert record.mig_uuid.startswith("MIG-")
        path = rewrite(node, uuid="MIG-0d5f2e0a-0000-0000-0000-000000000000")
        node.unprepare(claim)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        assert not path.exists()
        assert "another program replaced its MIG device MIG-0d5f2e0a-0000" in caplog.text
        assert ("gpu.nvidia.com/in-use", "foreign", "NoSchedule") in node.taints()[DEVICE]
