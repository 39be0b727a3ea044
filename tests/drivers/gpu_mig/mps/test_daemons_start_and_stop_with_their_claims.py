"""A claim's daemon starts, answers, is restarted and ends, with simulated daemons and with processes."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver import DraError
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.mps import DaemonState, MpsDaemon, MpsDaemonStore, NodeMpsHost
from dradriver_gpu_mig.mps.steps import ObservedDaemon
from tests.drivers.gpu_mig.mps.benches import GPU, OTHER_GPU, MpsBench, NodeBench, make_daemon, open_daemons

CLAIM = "2f0e4f6c-6c1e-4c43-8a3e-0d8c33b8a001"
OTHER = "2f0e4f6c-6c1e-4c43-8a3e-0d8c33b8a002"


def state_of(bench: MpsBench, claim: str = CLAIM) -> DaemonState | None:
    record = MpsDaemonStore(bench.folder).get(claim)
    return record.state if record else None


async def test_a_started_daemon_answers_with_its_limits(bench: MpsBench) -> None:
    daemons = open_daemons(bench)
    await daemons.start(make_daemon(CLAIM))
    assert bench.host().observe(CLAIM) is ObservedDaemon.ANSWERING
    assert bench.limits(CLAIM) == (50, {GPU: 1024})
    assert state_of(bench) is DaemonState.READY
    assert daemons.claims() == {CLAIM}


async def test_a_second_start_is_a_no_op(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    first = bench.identity(CLAIM)
    await open_daemons(bench).start(make_daemon(CLAIM))
    assert bench.identity(CLAIM) == first


async def test_other_settings_need_another_daemon(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    await open_daemons(bench).start(make_daemon(CLAIM, percentage=None, limit=512))
    assert bench.limits(CLAIM) == (None, {GPU: 512})


async def test_stop_leaves_nothing(bench: MpsBench) -> None:
    daemons = open_daemons(bench)
    await daemons.start(make_daemon(CLAIM))
    await daemons.stop(CLAIM)
    assert bench.remains(CLAIM) == []
    await daemons.stop(CLAIM)
    assert bench.remains(CLAIM) == []


@pytest.mark.parametrize("fault", ["end", "hang", "reboot"])
async def test_recover_restarts_a_daemon_with_the_same_limits(
    bench: MpsBench, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    first = bench.identity(CLAIM)
    getattr(bench, fault)(CLAIM)
    with caplog.at_level(logging.WARNING):
        assert await open_daemons(bench).recover({CLAIM, OTHER}) == [CLAIM]
    assert f"claim {CLAIM} does not answer" in caplog.text
    assert bench.host().observe(CLAIM) is ObservedDaemon.ANSWERING
    assert bench.identity(CLAIM) != first
    assert bench.limits(CLAIM) == (50, {GPU: 1024})
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == []


async def test_a_daemon_that_was_ready_keeps_its_folders_while_it_cannot_be_started_again(
    bench: MpsBench,
) -> None:
    """The containers of the claim may still have them mounted."""
    await open_daemons(bench).start(make_daemon(CLAIM))
    bench.end(CLAIM)
    bench.break_program()
    with pytest.raises(DraError):
        await open_daemons(bench).start(make_daemon(CLAIM))
    assert (bench.folder / CLAIM / "pipe").is_dir()
    bench.repair_program()
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == [CLAIM]
    assert bench.limits(CLAIM) == (50, {GPU: 1024})


async def test_stop_ends_a_daemon_that_hangs(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    bench.hang(CLAIM)
    assert bench.host().observe(CLAIM) is ObservedDaemon.RUNNING
    await open_daemons(bench).stop(CLAIM)
    assert bench.remains(CLAIM) == []


async def test_a_daemon_that_never_answers_is_an_error_with_its_log(bench: MpsBench) -> None:
    bench.break_program()
    with pytest.raises(DraError, match=rf"claim {CLAIM}: it does not answer.*\n(.*\n)*control.log: "):
        await open_daemons(bench).start(make_daemon(CLAIM))
    assert bench.remains(CLAIM) == []


async def test_a_failed_restart_is_tried_again_and_delays_no_other_daemon(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    await open_daemons(bench).start(make_daemon(OTHER))
    bench.end(CLAIM)
    bench.break_program()
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == []
    assert bench.host().observe(OTHER) is ObservedDaemon.ANSWERING
    bench.repair_program()
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == [CLAIM]
    assert bench.limits(CLAIM) == (50, {GPU: 1024})


async def test_recover_leaves_a_first_start_to_the_kubelet(bench: MpsBench) -> None:
    MpsDaemonStore(bench.folder).put(make_daemon(CLAIM))
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == []
    assert state_of(bench) is DaemonState.STARTING


async def test_recover_completes_a_stop(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    MpsDaemonStore(bench.folder).put(MpsDaemon(claim=CLAIM, devices=(GPU,), state=DaemonState.STOPPING))
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == []
    assert bench.remains(CLAIM) == []


async def test_recover_removes_a_daemon_without_a_record(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    (bench.folder / CLAIM / "daemon.json").unlink()
    (bench.folder / f"{OTHER}.lock").touch()
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == []
    assert bench.remains(CLAIM) == []


async def test_recover_skips_a_daemon_that_another_process_works_on(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    bench.end(CLAIM)
    store = MpsDaemonStore(bench.folder)
    async with store.lock(CLAIM):
        assert await open_daemons(bench).recover({CLAIM, OTHER}) == []
        with pytest.raises(BusyError, match=f"MPS daemon of claim {CLAIM}"):
            async with store.lock(CLAIM, wait=False):
                pass
    assert await open_daemons(bench).recover({CLAIM, OTHER}) == [CLAIM]


# --- processes -------------------------------------------------------------------------------------


async def test_the_daemon_gets_only_its_own_environment(
    node: NodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DRIVER", "1")
    await open_daemons(node).start(MpsDaemon(claim=CLAIM, devices=(GPU, OTHER_GPU), multi_user=True))
    state = node.state(CLAIM)
    assert state["environment"] == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin",
        "CUDA_VISIBLE_DEVICES": f"{GPU},{OTHER_GPU}",
        "CUDA_MPS_PIPE_DIRECTORY": "/run/dradriver-mps/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/run/dradriver-mps/log",
    }
    assert state["arguments"] == ["-d", "-M"]


async def test_nvidias_program_may_be_in_the_folder_of_container_optimized_nodes(node: NodeBench) -> None:
    folder = node.root / "usr-local"
    (folder / "nvidia/bin").mkdir(parents=True)
    (node.root / "sbin/nvidia-cuda-mps-control").rename(folder / "nvidia/bin/nvidia-cuda-mps-control")
    node.run("mount", "--bind", str(folder), str(node.root / "usr/local"))
    await open_daemons(node).start(make_daemon(CLAIM))
    assert node.limits(CLAIM) == (50, {GPU: 1024})


async def test_a_node_without_nvidias_program_is_an_error_that_names_it(node: NodeBench) -> None:
    (node.root / "sbin/nvidia-cuda-mps-control").unlink()
    with pytest.raises(DraError, match=f"nvidia-cuda-mps-control does not exist below {node.root}"):
        await open_daemons(node).start(make_daemon(CLAIM))
    assert node.remains(CLAIM) == []


async def test_a_program_that_fails_is_an_error_with_its_output(node: NodeBench) -> None:
    (node.root / "sbin/nvidia-cuda-mps-control").write_text("#!/bin/sh\necho no GPU here >&2\nexit 3\n")
    with pytest.raises(DraError, match=r"fails with status 3(.*\n)+start.log: no GPU here"):
        await open_daemons(node).start(make_daemon(CLAIM))
    assert node.remains(CLAIM) == []


async def test_a_node_without_cgroups_of_version_2_is_an_error(node: NodeBench, tmp_path: Path) -> None:
    settings = replace(node.settings(), cgroup=str(tmp_path))
    host = NodeMpsHost(node.folder, driver_root_on_host=node.root, proc=Path("/proc"), settings=settings)
    with pytest.raises(DraError, match="has no cgroups of version 2"):
        host.check(CLAIM)


async def test_a_driver_that_cannot_see_the_node_is_an_error(node: NodeBench) -> None:
    settings = replace(node.settings(), node_process=2**22)  # higher than any process
    host = NodeMpsHost(node.folder, driver_root_on_host=node.root, proc=Path("/proc"), settings=settings)
    with pytest.raises(DraError, match=r"the files of the node cannot be read. .* '/proc/4194304/root'"):
        host.check(CLAIM)


async def test_a_node_without_the_programs_that_a_daemon_needs_is_an_error(node: NodeBench) -> None:
    """A pod without hostPID sees its own image, which has none."""
    node.run("mount", "-t", "tmpfs", "empty", "/usr")
    with pytest.raises(DraError, match=r"the node has no .*umount.* A driver in a pod needs hostPID"):
        node.host().check(CLAIM)


async def test_a_client_that_connects_before_the_limits_are_sent_loses_its_server(node: NodeBench) -> None:
    """A container that is still running may connect as soon as a restarted daemon listens."""
    daemon, host = make_daemon(CLAIM), node.host()
    host.mount(CLAIM)
    (node.root / "run/has-client").touch()
    host.start(daemon)
    assert node.limits(CLAIM) == (50, {})
    assert len(node.processes(CLAIM)) == 2
    host.configure(daemon)
    assert node.limits(CLAIM) == (50, {GPU: 1024})
    assert host.observe(CLAIM) is ObservedDaemon.ANSWERING  # the daemon has collected its server
    assert node.processes(CLAIM) == {node.identity(CLAIM)}
    host.stop(CLAIM)
    host.unmount(CLAIM)
    host.remove(CLAIM)


@pytest.mark.parametrize(
    ("percentage", "rejected"),
    [
        (50, "set_default_active_thread_percentage 50 is rejected, and answered with '100.0'"),
        (None, f"a memory limit of 1024 MiB for {GPU} is rejected, and answered with ''"),
    ],
)
async def test_a_limit_that_nvidias_program_rejects_is_an_error(
    node: NodeBench, percentage: int | None, rejected: str
) -> None:
    """The program itself ends with status 0."""
    (node.root / "run/rejects-limits").touch()
    with pytest.raises(DraError, match=rf"claim {CLAIM}: {rejected}"):
        await open_daemons(node).start(make_daemon(CLAIM, percentage=percentage))
    assert node.remains(CLAIM) == []


async def test_a_daemon_may_know_the_ordinals_of_devices_only(node: NodeBench) -> None:
    (node.root / "run/knows-ordinals-only").touch()
    limits = {GPU: 1024, OTHER_GPU: 2048}
    await open_daemons(node).start(MpsDaemon(claim=CLAIM, devices=tuple(limits), memory_limits=limits))
    assert node.limits(CLAIM) == (None, limits)


async def test_a_restarted_daemon_that_rejects_its_limits_does_not_stay(node: NodeBench) -> None:
    """Else the containers of the claim would use the GPU without limits."""
    await open_daemons(node).start(make_daemon(CLAIM))
    node.end(CLAIM)
    (node.root / "run/rejects-limits").touch()
    assert await open_daemons(node).recover({CLAIM}) == []
    assert node.processes(CLAIM) == set()
    (node.root / "run/rejects-limits").unlink()
    assert await open_daemons(node).recover({CLAIM}) == [CLAIM]
    assert node.limits(CLAIM) == (50, {GPU: 1024})


async def test_files_that_containers_remove_meanwhile_do_not_prevent_a_start(
    node: NodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_daemons(node).start(make_daemon(CLAIM))
    node.end(CLAIM)
    (node.folder / CLAIM / "pipe/left").touch()
    is_dir = Path.is_dir

    def remove_and_look(path: Path) -> bool:
        if path.name == "left":
            path.unlink()
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", remove_and_look)
    assert await open_daemons(node).recover({CLAIM}) == [CLAIM]


async def test_a_daemon_that_cannot_be_recovered_is_not_tried_again_at_once(bench: MpsBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))
    bench.end(CLAIM)
    bench.break_program()
    daemons = open_daemons(bench)
    assert await daemons.recover({CLAIM}) == []
    bench.repair_program()
    assert await daemons.recover({CLAIM}) == []
    assert await open_daemons(bench).recover({CLAIM}) == [CLAIM]


async def test_a_daemon_whose_devices_do_not_exist_is_left_to_the_next_prepare(bench: MpsBench) -> None:
    """After a reboot, MIG devices are created by the next prepare."""
    await open_daemons(bench).start(make_daemon(CLAIM))
    bench.reboot(CLAIM)
    assert await open_daemons(bench).recover(set()) == []
    assert bench.host().observe(CLAIM) is not ObservedDaemon.ANSWERING


async def test_the_driver_can_be_installed_in_the_root_of_the_node(node: NodeBench) -> None:
    node.run("mount", "-t", "tmpfs", "run", "/run")
    node.run("mount", "--bind", str(node.root / "sbin"), "/usr/local/sbin")
    node.root = Path("/")
    await open_daemons(node).start(make_daemon(CLAIM))
    assert node.limits(CLAIM) == (50, {GPU: 1024})
    await open_daemons(node).stop(CLAIM)
    assert node.remains(CLAIM) == []


async def test_shared_memory_is_below_the_claims_folder_also_through_a_link(
    node: NodeBench, tmp_path: Path
) -> None:
    (tmp_path / "disk with space").mkdir()
    node.folder.symlink_to(tmp_path / "disk with space")
    await open_daemons(node).start(make_daemon(CLAIM))
    await open_daemons(node).stop(CLAIM)
    assert [line for line in node.mounts() if CLAIM in line] == []
    assert node.remains(CLAIM) == []
