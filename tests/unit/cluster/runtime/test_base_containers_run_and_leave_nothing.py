"""Each runtime: the container's view, its end, and no leftovers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.runtime import ContainerSpec, ContainerStartError, Runtime, choose_runtime
from dradriver.errors import UsageError
from dradriver.model.cdi import CdiDevice, CdiSpec, ContainerEdits, DeviceNode, Hook, Mount
from dradriver.model.encoding.codec import canonical

DEVICE = "/dev/dradriver-test"
"""The node's path in the container; on the host it is /dev/full."""

MakeSpec = Callable[..., ContainerSpec]


@pytest.fixture(params=["podman", "runc", "process"])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    try:
        chosen = await choose_runtime(request.param)
    except UsageError as error:
        pytest.skip(str(error))
    yield chosen
    await chosen.clean(str(tmp_path))


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    cdi = tmp_path / "cdi"
    cdi.mkdir()

    def make(*argv: str, **more: Any) -> ContainerSpec:
        folder = tmp_path / "folder"
        folder.mkdir()
        name = f"dradriver-test-{tmp_path.name.replace('_', '-')}-{os.getpid()}"
        spec: dict[str, Any] = {
            "hostname": "pod-1",
            "cdi_folder": cdi,
            "log": tmp_path / "log",
            "folder": folder,
        }
        return ContainerSpec(**{"id": name, "owner": str(tmp_path), "argv": argv, **spec, **more})

    return make


@pytest.fixture
def device(tmp_path: Path, make_spec: MakeSpec) -> str:
    (tmp_path / "claim.json").write_text("{}")
    hook = Hook("createRuntime", "/bin/sh", ["sh", "-c", f"cat > {tmp_path}/hook"])
    edits = ContainerEdits(
        env={"CARD": "7"},
        device_nodes=[DeviceNode(DEVICE, host_path="/dev/full")],
        mounts=[Mount(str(tmp_path / "claim.json"), "/claim.json", ["ro", "bind"])],
        hooks=[hook],
    )
    spec = CdiSpec(kind="example.com/card", devices=[CdiDevice("seven", edits)]).at_minimum_version()
    (tmp_path / "cdi" / "card.json").write_bytes(canonical(spec))
    return "example.com/card=seven"


def output(runtime: Runtime, spec: ContainerSpec) -> str:
    return b"".join(
        runtime.parse_log_line(line) for line in spec.log.read_bytes().splitlines(keepends=True)
    ).decode()


async def test_exit_code_and_output_are_kept(runtime: Runtime, make_spec: MakeSpec) -> None:
    spec = make_spec("sh", "-c", "echo out; echo err >&2; exit 3")
    container = await runtime.start(spec)
    assert await container.wait() == 3
    assert sorted(output(runtime, spec).split()) == ["err", "out"]
    assert container.id.startswith(f"{runtime.name}://")


async def test_env_and_working_dir_are_honored(runtime: Runtime, make_spec: MakeSpec) -> None:
    spec = make_spec("sh", "-c", "echo $WORD; pwd", env={"WORD": "a b"}, working_dir="/usr")
    await (await runtime.start(spec)).wait()
    assert output(runtime, spec) == "a b\n/usr\n"


async def test_a_container_without_a_command_waits_until_it_is_stopped(
    runtime: Runtime, make_spec: MakeSpec
) -> None:
    container = await runtime.start(make_spec())
    ended = asyncio.create_task(container.wait())
    await container.stop(10)
    assert await ended in {0, 143}  # 143 when the signal came before the shell's trap


async def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(
    runtime: Runtime, make_spec: MakeSpec
) -> None:
    spec = make_spec("sh", "-c", "trap '' TERM; echo deaf; sleep infinity & wait; sleep infinity")
    container = await runtime.start(spec)
    while "deaf" not in output(runtime, spec):
        await asyncio.sleep(0.01)
    ended = asyncio.create_task(container.wait())
    await container.stop(0)
    assert await ended == 137


async def test_cdi_edits_reach_the_container(
    runtime: Runtime, make_spec: MakeSpec, device: str, tmp_path: Path
) -> None:
    script = f"echo $CARD; stat -c '%F %t:%T' {DEVICE}; head -c 3 {DEVICE} | wc -c; cat /claim.json; ls /dev"
    spec = make_spec("sh", "-c", script, cdi_devices=(device,))
    await (await runtime.start(spec)).wait()
    seen = output(runtime, spec).splitlines()
    assert seen[0] == "7"
    if runtime.name == "process":
        return
    host = Path("/dev/full").stat()
    numbers = f"{os.major(host.st_rdev):x}:{os.minor(host.st_rdev):x}"
    assert seen[1:3] == [f"character special file {numbers}", "3"]
    assert seen[3].startswith("{}")  # the mounted file
    assert "loop0" not in seen
    assert '"status"' in (tmp_path / "hook").read_text()


async def test_a_folder_may_be_behind_a_symbolic_link_and_have_a_space_in_its_name(
    runtime: Runtime, make_spec: MakeSpec, device: str, tmp_path: Path
) -> None:
    there = tmp_path / "a b"
    there.mkdir()
    (there / "folder").mkdir()
    (tmp_path / "cdi").rename(there / "cdi")
    link = tmp_path / "li nk"
    link.symlink_to(there)
    more = {"folder": link / "folder", "cdi_folder": link / "cdi", "log": link / "log"}
    spec = make_spec("sh", "-c", "echo $CARD", cdi_devices=(device,), **more)
    assert await (await runtime.start(spec)).wait() == 0
    assert output(runtime, spec) == "7\n"


async def test_an_unknown_cdi_device_is_an_error_that_names_it(runtime: Runtime, make_spec: MakeSpec) -> None:
    with pytest.raises(ContainerStartError, match="card=none") as caught:
        await runtime.start(make_spec("true", cdi_devices=("example.com/card=none",)))
    assert caught.value.reason == "CreateContainerError"


async def test_an_unknown_program_is_an_error_that_names_it(runtime: Runtime, make_spec: MakeSpec) -> None:
    with pytest.raises(ContainerStartError, match="no-such-program") as caught:
        await runtime.start(make_spec("no-such-program"))
    assert caught.value.reason == "RunContainerError"


async def test_clean_ends_the_containers_of_an_earlier_run(
    runtime: Runtime, make_spec: MakeSpec, tmp_path: Path
) -> None:
    container = await runtime.start(make_spec("sh", "-c", "sleep infinity & sleep infinity"))
    ended = asyncio.create_task(container.wait())
    await runtime.clean(str(tmp_path))
    assert await ended == 137
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts


async def test_an_unknown_runtime_is_rejected() -> None:
    with pytest.raises(UsageError, match="'docker' is unknown: use podman, runc or process"):
        await choose_runtime("docker")
