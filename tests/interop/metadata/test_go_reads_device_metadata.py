"""Kubernetes' own decoder reads the device metadata that we write (KEP-5304)."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.device import Attribute, Version
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice

HERE = Path(__file__).parent
DRIVER = "nic.example.com"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs a Go toolchain to build the reader")
    binary = tmp_path_factory.mktemp("reader") / "reader"
    environment = os.environ | {"CGO_ENABLED": "0"}
    built = subprocess.run(
        [go, "build", "-o", str(binary), "."],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.fail(f"the reader does not build: {built.stderr}")
    return binary


def record(pod_claim: str = "") -> ClaimRecord:
    attributes = {
        "model": Attribute(string="fast <&> small"),
        "resource.kubernetes.io/numaNode": Attribute(int_value=1),
        "firmware": Attribute(version=str(Version("1.2.3"))),
        "sriov": Attribute(bool_value=True),
    }
    network = NetworkData(interface_name="eth1", ips=["10.0.0.5/24"], hardware_address="ea:9f:cb:40:b1:7b")
    return ClaimRecord(
        uid="0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        namespace="default",
        name="claim-abcde",
        pod_claim=pod_claim,
        devices=[
            RecordedDevice(request="nic", pool="node-1", device="nic-0"),
            RecordedDevice(request="nic", pool="node-1", device="nic-1"),
            RecordedDevice(request="other", pool="node-1", device="nic-2"),
        ],
        answers=[RecordedAnswer(metadata=attributes, network=network), RecordedAnswer(), RecordedAnswer()],
    )


def read(reader: Path, *paths: Path) -> list[dict[str, Any]]:
    done = subprocess.run([reader, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("pod_claim", ["", "my-nic"])
def test_the_decoder_understands_every_field_and_expects_the_file_where_it_is_mounted(
    reader: Path, tmp_path: Path, pod_claim: str
) -> None:
    claim = record(pod_claim)
    directory = MetadataDirectory(tmp_path, DRIVER)
    texts = directory.compute_contents(claim)
    directory.write(claim.uid, texts)
    ((request, edits),) = directory.mounts(claim, texts).items()
    (mount,) = edits.mounts
    (metadata,) = read(reader, Path(mount.host_path))
    assert request == "nic"
    assert mount.container_path == metadata["TemplatePath" if pod_claim else "ClaimPath"]
    assert (metadata["Version"], metadata["Name"], metadata["Namespace"]) == (
        "v1beta1",
        "claim-abcde",
        "default",
    )
    assert (metadata["UID"], metadata["Generation"], metadata["PodClaimName"]) == (claim.uid, 1, pod_claim)
    (asked,) = metadata["Requests"]
    first, second = asked["Devices"]
    assert (first["Driver"], first["Pool"], first["Name"]) == (DRIVER, "node-1", "nic-0")
    assert first["Attributes"]["model"] == {"string": "fast <&> small"}
    assert first["Attributes"]["resource.kubernetes.io/numaNode"] == {"int": 1}
    assert first["NetworkData"]["ips"] == ["10.0.0.5/24"]
    assert second["Name"] == "nic-1"


def test_a_reader_that_knows_only_the_older_version_finds_it(reader: Path, tmp_path: Path) -> None:
    directory = MetadataDirectory(tmp_path, DRIVER)
    directory.write(record().uid, directory.compute_contents(record()))
    (path,) = tmp_path.glob("*/nic.json")
    newest, older = path.read_text().splitlines()
    path.write_text(newest.replace("v1beta1", "v9") + "\n" + older)
    (metadata,) = read(reader, path)
    assert metadata["Version"] == "v1alpha1"
    assert len(metadata["Requests"][0]["Devices"]) == 2
