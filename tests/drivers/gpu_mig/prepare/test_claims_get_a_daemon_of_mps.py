"""A claim that requests MPS gets a control daemon of its own, with limits, as long as it has its devices."""

from pathlib import Path
from typing import cast

import pytest

from dradriver import DraError, Quantity
from dradriver.model.resource.claim import CapacityRequirements, DeviceRequest, ExactDeviceRequest
from dradriver.testing import CrashPoint, ProcessDiedError
from dradriver_gpu_mig import GpuConfig, GpuDriver, MigDeviceConfig
from dradriver_gpu_mig.card import ComputeMode
from dradriver_gpu_mig.configs import GpuSharing, MigSharing, MpsConfig
from dradriver_gpu_mig.mps import DaemonState, MpsDaemonStore, SimulatedMpsHost
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.nodes import DRIVER, GpuHarness

FIRST, SECOND = "gpu-0000-07-00-0", "gpu-0000-0f-00-0"
MIG = f"{FIRST}-mig-3g-20gb-4"
OTHER_MIG = f"{FIRST}-mig-1g-5gb-0"
ON = "mps: {}"


def mps(**limits: object) -> GpuConfig:
    return GpuConfig(sharing=GpuSharing(strategy="MPS", mps_config=MpsConfig(**limits)))  # type: ignore[arg-type]


def mig_mps(**limits: object) -> MigDeviceConfig:
    return MigDeviceConfig(sharing=MigSharing(strategy="MPS", mps_config=MpsConfig(**limits)))  # type: ignore[arg-type]


def whole_gpus(folder: Path, *settings: str) -> GpuHarness:
    text = ", ".join(("mode: whole", *settings))
    return GpuHarness(folder, "t4", "t4", settings=f"{{{text}}}", mig=False)


def mig_devices(folder: Path) -> GpuHarness:
    return GpuHarness(folder, settings=f"{{mode: dynamic, {ON}}}")


def daemons(node: GpuHarness) -> MpsDaemonStore:
    return MpsDaemonStore(node.driver.data_dir / "mps")


def host(node: GpuHarness) -> SimulatedMpsHost:
    return SimulatedMpsHost(node.driver.data_dir / "mps")


def test_mps_is_off_unless_the_settings_say_so(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_blindly(("node-1", MIG), config=mig_mps())
        with pytest.raises(DraError, match=f"device {MIG}: the claim requests MPS, which is off on this node"):
            node.prepare(claim)
        assert node.first_gpu_instances == []


def test_the_containers_of_a_claim_get_the_pipe_and_the_shared_memory_of_their_daemon(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), ("node-1", SECOND), config=mps())
        edits = node.prepare(claim).edits
        folder = node.driver.data_dir / "mps" / claim.metadata.uid
        assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in edits.env
        assert {(mount.host_path, mount.container_path) for mount in edits.mounts} == {
            (str(folder / "pipe"), "/tmp/nvidia-mps"),
            (str(folder / "shm"), "/dev/shm"),
        }
        daemon = daemons(node).get(claim.metadata.uid)
        assert daemon is not None
        assert daemon.state is DaemonState.READY
        assert daemon.devices == tuple(gpu.uuid for gpu in node.cards.gpus())
        node.unprepare(claim)
        assert daemons(node).claims() == set()
        assert not folder.exists()


def test_a_gpu_belongs_to_the_server_of_its_claim_alone(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), config=mps())
        node.prepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.EXCLUSIVE_PROCESS
        node.unprepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT


def test_the_limits_of_a_claim_are_those_of_its_daemon(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        first, second = (gpu.uuid for gpu in node.cards.gpus())
        limits = {"1": "3Gi"}
        config = mps(
            default_active_thread_percentage=40,
            default_pinned_device_memory_limit="2Gi",
            default_per_device_pinned_memory_limit=limits,
            multi_user=True,
        )
        claim = node.allocate_blindly(("node-1", FIRST), ("node-1", SECOND), config=config)
        node.prepare(claim)
        daemon = daemons(node).get(claim.metadata.uid)
        assert daemon is not None
        assert (daemon.active_thread_percentage, daemon.multi_user) == (40, True)
        assert daemon.memory_limits == {first: 2048, second: 3072}


def test_two_limits_of_one_device_are_refused(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        config = mps(default_per_device_pinned_memory_limit={"0": "1Gi", node.gpu: "2Gi"})
        claim = node.allocate_blindly(("node-1", FIRST), config=config)
        with pytest.raises(DraError, match=f"'{node.gpu}' is a second limit of the device {node.gpu}"):
            node.prepare(claim)


@pytest.mark.parametrize("key", ["2", "GPU-of-another-claim"])
def test_a_limit_of_a_device_that_the_claim_does_not_have_is_refused(tmp_path: Path, key: str) -> None:
    config = mps(default_per_device_pinned_memory_limit={key: "1Gi"})
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), ("node-1", SECOND), config=config)
        with pytest.raises(DraError, match=f"defaultPerDevicePinnedMemoryLimit: '{key}' is neither the UUID"):
            node.prepare(claim)
        node.unprepare(claim)
        assert (node.records(), daemons(node).claims()) == ([], set())


def test_the_daemon_of_a_mig_device_serves_that_device(tmp_path: Path) -> None:
    with mig_devices(tmp_path) as node:
        claim = node.allocate_blindly(("node-1", MIG), config=mig_mps(default_active_thread_percentage=50))
        node.prepare(claim)
        (mig,) = list_mig_devices(node.cards, node.gpu)
        daemon = daemons(node).get(claim.metadata.uid)
        assert daemon is not None
        assert daemon.devices == (mig.uuid,)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT
        node.unprepare(claim)
        assert node.first_gpu_instances == []


def test_one_daemon_does_not_serve_two_mig_devices(tmp_path: Path) -> None:
    with mig_devices(tmp_path) as node:
        claim = node.allocate_blindly(("node-1", MIG), ("node-1", OTHER_MIG), config=mig_mps())
        with pytest.raises(DraError, match="serves whole GPUs or one MIG device"):
            node.prepare(claim)
        node.unprepare(claim)
        assert node.first_gpu_instances == []


# --- MPS and shares of a GPU -----------------------------------------------------------------------


def test_claims_that_share_a_gpu_have_daemons_of_their_own_and_the_gpu_stays_open_to_all(
    tmp_path: Path,
) -> None:
    with whole_gpus(tmp_path, ON, "consumableShares: unlimited") as node:
        claims = [node.allocate_share(FIRST, mps()) for _ in range(2)]
        edits = [node.prepare(claim).edits for claim in claims]
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT
        paths = [{mount.host_path for mount in each.mounts} for each in edits]
        assert not paths[0] & paths[1]
        node.unprepare(claims[0])
        assert daemons(node).claims() == {claims[1].metadata.uid}


def test_the_part_of_the_memory_that_a_claim_has_is_the_limit_of_its_daemon(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON, "consumableShares: memory") as node:
        claim = node.allocate_share(FIRST, mps(), memory="4Gi")
        node.prepare(claim)
        daemon = daemons(node).get(claim.metadata.uid)
        assert daemon is not None
        assert daemon.memory_limits == {node.gpu: 4096}
        more = node.allocate_share(FIRST, mps(default_pinned_device_memory_limit="5Gi"), memory="4Gi")
        with pytest.raises(DraError, match="the memory limit of MPS is 5120Mi, and the claim has only 4096Mi"):
            node.prepare(more)


def test_shares_of_one_gpu_are_added_up(tmp_path: Path) -> None:
    capacity = CapacityRequirements(requests={"memory": Quantity("4Gi")})
    exactly = ExactDeviceRequest(device_class_name=DRIVER, capacity=capacity)
    with whole_gpus(tmp_path, ON, "consumableShares: memory") as node:
        requests = [DeviceRequest(name, exactly) for name in ("one", "two", "three")]
        claim = node.allocate(*requests, config=mps(default_pinned_device_memory_limit="8Gi"))
        assert {result.device for result in claim.results} == {FIRST}
        node.prepare(claim)
        daemon = daemons(node).get(claim.metadata.uid)
        assert daemon is not None
        assert daemon.memory_limits == {node.gpu: 8192}


def test_the_end_of_mps_and_shares_does_not_concern_a_running_daemon(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON, "consumableShares: memory") as node:
        claim = node.allocate_share(FIRST, mps(), memory="4Gi")
        node.prepare(claim)
        started = host(node).read(claim.metadata.uid)
        node.settings = "mode: whole"
        node.lose_state()
        node.prepare(claim)
        assert host(node).read(claim.metadata.uid) == started
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT


# --- faults ----------------------------------------------------------------------------------------


def test_a_daemon_that_died_is_started_again_with_its_limits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), config=mps(default_active_thread_percentage=40))
        node.prepare(claim)
        uid = claim.metadata.uid
        host(node).kill(uid)
        assert not host(node).read(uid).answering
        while not host(node).read(uid).answering:  # daemons are restarted beside discoveries
            node.discover()
        assert "it is restarted" in caplog.text


def test_a_daemon_that_does_not_start_is_an_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), config=mps())
        node.discover()
        driver = cast(GpuDriver, node.driver)
        assert driver._node is not None
        simulated = cast(SimulatedMpsHost, driver._node.mps._host)
        simulated.answers = False
        with pytest.raises(DraError, match=f"MPS daemon of claim {claim.metadata.uid}"):
            node.prepare(claim)
        assert daemons(node).claims() == set()
        simulated.answers = True
        node.prepare(claim)
        node.unprepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT


def test_a_node_that_cannot_have_a_daemon_changes_nothing_for_the_claim(tmp_path: Path) -> None:
    with whole_gpus(tmp_path, ON) as node:
        claim = node.allocate_blindly(("node-1", FIRST), config=mps())
        node.discover()
        driver = cast(GpuDriver, node.driver)
        assert driver._node is not None

        def refuse(_: str) -> None:
            raise DraError("the node has no umount")

        cast(SimulatedMpsHost, driver._node.mps._host).check = refuse  # type: ignore[assignment,method-assign]
        with pytest.raises(DraError, match="the node has no umount"):
            node.prepare(claim)
        assert (node.records(), daemons(node).claims()) == ([], set())
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT
        node.unprepare(claim)


@pytest.mark.parametrize("die_at", list(CrashPoint))
def test_a_driver_that_dies_leaves_a_daemon_only_to_a_prepared_claim(
    tmp_path: Path, die_at: CrashPoint
) -> None:
    with mig_devices(tmp_path) as node:
        claim = node.allocate_blindly(("node-1", MIG), config=mig_mps())
        for action, expected in ((node.prepare, {claim.metadata.uid}), (node.unprepare, set())):
            try:
                action(claim, die_at=die_at)
            except ProcessDiedError:
                action(claim)
            assert daemons(node).claims() == expected
        assert node.first_gpu_instances == []
