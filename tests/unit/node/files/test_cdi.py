"""Names and versions of the CDI specs that are written."""

import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dradriver.model.cdi import CdiDevice, CdiSpec, ContainerEdits, DeviceNode, Mount, cdi_problems
from dradriver.node.files.atomic import write_atomically
from dradriver.node.files.cdi import CdiDirectory, CdiNames, build_spec, encode_spec, is_usable_uid
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def spec(*edits: ContainerEdits, driver: str = "gpu.example.com") -> CdiSpec | None:
    devices = [RecordedDevice(request="r", pool="p", device=f"gpu-{n}") for n in range(len(edits))]
    answers = [RecordedAnswer(edits=each) for each in edits]
    return build_spec(CdiNames(driver), ClaimRecord(uid=UID, devices=devices, answers=answers), {})


def test_the_version_is_the_lowest_that_the_content_needs() -> None:
    plain, newer = spec(ContainerEdits(env=["A=b"])), spec(ContainerEdits(additional_gids=[5]))
    assert plain is not None
    assert newer is not None
    assert (plain.cdi_version, newer.cdi_version) == ("0.5.0", "0.7.0")


def test_a_mount_without_a_type_is_written_as_a_bind_mount() -> None:
    found = spec(ContainerEdits(mounts=[Mount("/a", "/b"), Mount("/c", "/d", ["ro"])]))
    assert found is not None
    options = [mount.options for mount in found.devices[0].container_edits.mounts]
    assert options == [("rbind",), ("rbind", "ro")]


def test_devices_without_edits_are_omitted_and_others_keep_their_numbers() -> None:
    found = spec(ContainerEdits(), ContainerEdits(device_nodes=[DeviceNode("/dev/gpu1")]))
    assert found is not None
    assert [device.name for device in found.devices] == [f"{UID}-1"]


@pytest.mark.parametrize("driver", ["gpu.example.com", "9p.example.com", "x", "0"])
def test_the_kind_is_valid_in_cdi_for_every_driver_name(driver: str) -> None:
    found = spec(ContainerEdits(env=["A=b"]), driver=driver)
    assert found is not None
    assert list(cdi_problems(found)) == []


@given(st.from_regex(r"[0-9a-f]{8}-[0-9a-f]{4}", fullmatch=True), st.sampled_from(["a.b", "x", "0", "a-b"]))
def test_a_file_name_has_the_uid_of_its_claim(uid: str, driver: str) -> None:
    names = CdiNames(driver)
    assert names.uid(names.file(uid)) == uid
    assert names.uid(f".{names.file(uid)}.tmp") == uid
    assert names.uid(f"x{names.file(uid)}") is None
    assert names.uid(f"{names.file(uid)}.tmp") is None


@pytest.mark.parametrize("uid", ["", "../x", "a/b", "-a", "a" * 200, "a b"])
def test_a_uid_that_cannot_be_a_file_name_is_not_usable(uid: str) -> None:
    assert not is_usable_uid(uid)


@given(st.text(st.sampled_from('a\x7f\x85\x9f\u2028\u2029\ufeff\uffff\n\t"\\\U0001f600')))
def test_a_reader_of_yaml_reads_the_same_strings(value: str) -> None:
    """Container runtimes read JSON specs as YAML, which refuses some characters and folds others."""
    spec = CdiSpec(kind="a.com/b", devices=[CdiDevice("d", ContainerEdits(env={"A": value}))])
    with tempfile.TemporaryDirectory() as folder:
        CdiDirectory(Path(folder), CdiNames("a.com")).write(UID, encode_spec(spec))
        [path] = Path(folder).iterdir()
        read = yaml.safe_load(path.read_text())
    assert read["devices"][0]["containerEdits"]["env"] == [f"A={value}"]


def test_a_spec_is_written_only_when_it_differs(tmp_path: Path) -> None:
    directory = CdiDirectory(tmp_path / "cdi", CdiNames("gpu.example.com"))
    one = CdiSpec(kind="gpu.example.com/claim", devices=[CdiDevice("d", ContainerEdits(env=["A=b"]))])
    assert directory.write(UID, encode_spec(one))
    assert not directory.write(UID, encode_spec(one))
    assert directory.write(UID, encode_spec(one.at_minimum_version()))
    assert directory.uids() == {UID}
    directory.remove(UID)
    directory.remove(UID)
    assert directory.uids() == set()


def test_a_strict_umask_hides_no_file_from_containers(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "metadata.json", b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "metadata.json").stat().st_mode & 0o777 == 0o644
