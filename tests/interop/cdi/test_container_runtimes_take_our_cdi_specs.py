"""The Go library of container runtimes accepts our CDI specs, and applies them as our code does."""

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dradriver.cluster.runtime.base import ContainerSpec
from dradriver.cluster.runtime.cdi_apply import apply_edits
from dradriver.cluster.runtime.cdi_specs import find_edits
from dradriver.cluster.runtime.oci import build_oci_config
from dradriver.model.cdi import (
    CdiDevice,
    CdiSpec,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    cdi_problems,
    minimum_version,
)
from dradriver.model.resource.device import Attribute
from dradriver.node.files.cdi import CdiDirectory, CdiNames, build_spec, encode_spec
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice

HERE = Path(__file__).parent
GO = shutil.which("go")
pytestmark = [pytest.mark.skipif(GO is None, reason="Go is not installed"), pytest.mark.timeout(900)]

NAMES = CdiNames("gpu.example.com")
LETTER, DIGIT = "a1b2c3d4-0000-4000-8000-000000000001", "01b2c3d4-0000-4000-8000-000000000002"
VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"]
BIND = ["ro", "bind"]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert GO is not None
    target = tmp_path_factory.mktemp("go") / "cdi"
    environment = os.environ | {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    command = [GO, "build", "-o", str(target), "."]
    done = subprocess.run(command, cwd=HERE, env=environment, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return target


def container() -> dict[str, Any]:
    """Return a container's configuration before CDI, with a variable and a mount that edits may replace."""
    spec = ContainerSpec(
        id="x",
        owner="o",
        folder=Path("/f"),
        log=Path("/f/log"),
        cdi_folder=Path("/c"),
        hostname="pod",
        env={"SET": "pod"},
    )
    return build_oci_config(spec)


def run(reader: Path, folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [str(reader), str(folder), *names]
    return subprocess.run(command, input=json.dumps(container()), capture_output=True, text=True, check=False)


def without_empty(value: Any) -> Any:
    """Return the value without empty fields: Go omits them."""
    if isinstance(value, dict):
        return {
            key: found for key, item in value.items() if (found := without_empty(item)) not in (None, [], {})
        }
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def by_go(reader: Path, folder: Path, *names: str) -> Any:
    done = run(reader, folder, *names)
    assert done.returncode == 0, done.stderr
    return without_empty(json.loads(done.stdout))


def by_us(folder: Path, *names: str) -> Any:
    config = copy.deepcopy(container())
    apply_edits(config, find_edits(folder, names))
    return without_empty(config)


def record(uid: str, *edits: ContainerEdits) -> ClaimRecord:
    devices = [
        RecordedDevice(request="gpu", pool="node-1", device=f"gpu-{index}") for index in range(len(edits))
    ]
    return ClaimRecord(
        uid=uid,
        namespace="default",
        name="claim",
        devices=devices,
        answers=[RecordedAnswer(edits=each) for each in edits],
    )


def write_spec(folder: Path, spec: CdiSpec | None) -> list[str]:
    """Write a spec as the node side does; return the IDs of its devices."""
    assert spec is not None
    CdiDirectory(folder, NAMES).write(LETTER, encode_spec(spec))
    return [f"{spec.kind}={device.name}" for device in spec.devices]


PLAIN = ContainerEdits(env={"SET": "cdi", "NEW": "a=b c"}, device_nodes=[DeviceNode("/dev/null")])
NUMBERED = DeviceNode(
    "/dev/gpu9", type="c", major=195, minor=9, file_mode=0o640, permissions="rw", uid=7, gid=8
)
FEATURES = {
    "variables-and-nodes": (LETTER, PLAIN, "0.3.0"),
    "numbered-nodes": (LETTER, ContainerEdits(device_nodes=[NUMBERED, NUMBERED]), "0.3.0"),
    "bind-mounts": (LETTER, ContainerEdits(mounts=[Mount("/etc/hosts", "/etc/hosts", BIND)]), "0.3.0"),
    "hooks": (
        LETTER,
        ContainerEdits(hooks=[Hook("createContainer", "/bin/true", ["true", "x"], ["A=b"], 5)]),
        "0.3.0",
    ),
    "typed-mounts": (
        LETTER,
        ContainerEdits(mounts=[Mount("tmpfs", "/dev/shm/deep", ["size=1m"], "tmpfs")]),
        "0.4.0",
    ),
    "host-paths": (LETTER, ContainerEdits(device_nodes=[DeviceNode("/dev/x", "/dev/zero")]), "0.5.0"),
    "names-that-begin-with-a-digit": (DIGIT, PLAIN, "0.5.0"),
    "groups": (LETTER, ContainerEdits(additional_gids=[44, 0, 44]), "0.7.0"),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_spec_is_accepted_at_its_version_and_gives_the_same_container(
    reader: Path, tmp_path: Path, feature: str
) -> None:
    uid, edits, version = FEATURES[feature]
    spec = build_spec(NAMES, record(uid, edits, PLAIN), {})
    assert spec is not None
    assert spec.cdi_version == version
    ids = write_spec(tmp_path, spec)
    assert by_go(reader, tmp_path, *ids) == by_us(tmp_path, *ids)


@pytest.mark.parametrize("feature", FEATURES)
def test_no_lower_version_is_accepted(reader: Path, tmp_path: Path, feature: str) -> None:
    uid, edits, version = FEATURES[feature]
    spec = build_spec(NAMES, record(uid, edits), {})
    write_spec(tmp_path, spec)
    [path] = tmp_path.iterdir()
    lower = VERSIONS[VERSIONS.index(version) - 1]
    path.write_text(path.read_text().replace(f'"{version}"', f'"{lower}"'))
    done = run(reader, tmp_path)
    assert done.returncode == 1
    assert f"the spec version must be at least v{version}" in done.stderr


def test_a_class_with_a_dot_needs_its_version(reader: Path, tmp_path: Path) -> None:
    spec = CdiSpec(kind="example.com/a.b", devices=[CdiDevice("one", PLAIN)]).at_minimum_version()
    assert minimum_version(spec) == "0.6.0"
    ids = write_spec(tmp_path, spec)
    assert by_go(reader, tmp_path, *ids) == by_us(tmp_path, *ids)


def test_device_metadata_is_mounted(reader: Path, tmp_path: Path) -> None:
    plain = record(DIGIT, PLAIN)
    attributes = {"model": Attribute(string="x")}
    claim = ClaimRecord(
        uid=plain.uid,
        namespace=plain.namespace,
        name=plain.name,
        devices=plain.devices,
        answers=[RecordedAnswer(edits=PLAIN, metadata=attributes)],
    )
    metadata = MetadataDirectory(tmp_path / "metadata", "gpu.example.com")
    texts = metadata.compute_contents(claim)
    metadata.write(claim.uid, texts)
    folder = tmp_path / "cdi"
    ids = write_spec(folder, build_spec(NAMES, claim, metadata.mounts(claim, texts)))
    assert len(ids) == 2
    config = by_go(reader, folder, *ids)
    assert config == by_us(folder, *ids)
    [mount] = [each for each in config["mounts"] if each["destination"].endswith("-metadata.json")]
    assert Path(mount["source"]).is_file()


def test_edits_of_the_spec_are_applied_once_and_first(reader: Path, tmp_path: Path) -> None:
    devices = [CdiDevice(name, ContainerEdits(env={"WHICH": name})) for name in ("one", "two")]
    spec = CdiSpec(kind=NAMES.kind, devices=devices, container_edits=PLAIN).at_minimum_version()
    one, two = write_spec(tmp_path, spec)
    assert by_go(reader, tmp_path, two, one) == by_us(tmp_path, two, one)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
PATHS = st.sampled_from(["/a", "/a/b", "/proc", "/dev/shm", "/x y", "/ä/ß", "/a/b/c"])
VARIABLES = st.builds("{}={}".format, st.sampled_from(["SET", "PATH", "A", "b.c"]), WORDS)
OPTIONAL = st.none() | st.integers(0, 0o777)
EDITS = st.builds(
    ContainerEdits,
    env=st.lists(VARIABLES, max_size=3),
    device_nodes=st.lists(
        st.builds(
            DeviceNode,
            path=PATHS,
            host_path=st.sampled_from(["/dev/null", "/dev/zero"]),
            type=st.sampled_from(["", "c"]),
            major=st.none() | st.integers(0, 300),
            minor=st.none() | st.integers(0, 300),
            file_mode=OPTIONAL,
            permissions=st.sampled_from(["", "r", "rw", "rwm", "m"]),
            uid=OPTIONAL,
            gid=OPTIONAL,
        )
        | st.builds(
            DeviceNode,
            path=PATHS,
            type=st.sampled_from(["b", "c", "u", "p"]),
            major=st.integers(1, 300),
            minor=st.none() | st.integers(0, 300),
            file_mode=OPTIONAL,
        ),
        max_size=2,
    ),
    mounts=st.lists(
        st.builds(
            Mount, PATHS, PATHS, st.sampled_from([[], ["ro"], BIND]), st.sampled_from(["", "bind", "tmpfs"])
        ),
        max_size=3,
    ),
    hooks=st.lists(
        st.builds(
            Hook,
            st.sampled_from(["prestart", "createRuntime", "createContainer", "startContainer", "poststop"]),
            PATHS,
            st.lists(WORDS, max_size=2),
            st.lists(VARIABLES | WORDS, max_size=2),
            st.none() | st.integers(0, 9),
        ),
        max_size=2,
    ),
    additional_gids=st.lists(st.integers(0, 9), max_size=2),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDITS, min_size=1, max_size=3), uid=st.sampled_from([LETTER, DIGIT]))
def test_our_rules_accept_and_reject_the_same_specs(
    reader: Path, tmp_path: Path, edits: list[ContainerEdits], uid: str
) -> None:
    """The effect of an accepted spec is the same too."""
    devices = [
        CdiDevice(f"{uid}-{index}", each) for index, each in enumerate(edits) if each != ContainerEdits()
    ]
    if not devices:
        return
    spec = CdiSpec(kind=NAMES.kind, devices=devices).at_minimum_version()
    ids = write_spec(tmp_path, spec)
    if list(cdi_problems(spec)):
        assert run(reader, tmp_path).returncode == 1
    else:
        assert by_go(reader, tmp_path, *ids) == by_us(tmp_path, *ids)
