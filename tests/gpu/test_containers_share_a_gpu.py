"""Claims with shares of a real GPU. Each claim has an MPS daemon, and its containers are the clients."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import Harness
from dradriver_gpu_mig import GpuConfig
from dradriver_gpu_mig.card import ComputeMode, Gpu
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.configs import GpuSharing, MpsConfig
from dradriver_gpu_mig.mps import MpsDaemon, NodeMpsHost
from dradriver_gpu_mig.settings import MpsSettings
from tests.drivers.gpu_mig.mps.benches import find_cgroups, find_missing_right
from tests.drivers.gpu_mig.nodes import allocate_share
from tests.gpu.conftest import MakeNode, find_device
from tests.gpu.cuda import OUT_OF_MEMORY, SUM, parse, run_cuda, run_in_container
from tests.interop.loader_view import containers

# This process has the namespaces of the node, and unlike the first process it can always be entered.
SETTINGS = f"{{mode: whole, consumableShares: 4, mps: {{nodeProcess: {os.getpid()}}}}}"
LIMITED = MpsConfig(default_active_thread_percentage=50, default_pinned_device_memory_limit="2Gi")
pytestmark = [
    pytest.mark.skipif(bool(containers.find_missing()), reason=containers.find_missing() or "-"),
    pytest.mark.timeout(180),
]


def make_host(folder: Path) -> NodeMpsHost:
    settings = MpsSettings(node_process=os.getpid())
    return NodeMpsHost(folder, driver_root_on_host=Path("/"), proc=Path("/proc"), settings=settings)


@pytest.fixture
def node(nodes: MakeNode) -> Iterator[Harness]:
    if reason := find_missing_right():
        pytest.skip(reason)
    try:
        make_host(Path("/")).check("of a test")
    except dra.DraError as error:
        pytest.skip(str(error))
    node = nodes(SETTINGS)
    yield node
    for uid in node.prepared():  # of a failed test
        node.unprepare(uid)


def allocate(node: Harness, gpu: Gpu, config: MpsConfig = LIMITED) -> ResourceClaim:
    sharing = GpuSharing(strategy="MPS", mps_config=config)
    return allocate_share(node, find_device(node, gpu).name, GpuConfig(sharing=sharing))


def list_daemons() -> list[str]:
    """Return the UIDs of claims that have a daemon."""
    return [path.name for path in (find_cgroups() / "dradriver-mps").glob("*/")]


def test_a_container_gets_its_part_of_the_gpu(
    node: Harness, gpu: Gpu, hardware: NvmlGpus, image: Path, cuda_program: Path
) -> None:
    whole = int(parse(run_cuda(cuda_program, gpu).stdout)["multiprocessors"])
    claim = allocate(node, gpu)
    edits = node.prepare(claim).edits
    facts = run_in_container(image, edits, "add")
    assert (facts["uuid"], facts["sum"]) == (gpu.uuid, str(SUM))
    assert int(facts["multiprocessors"]) <= whole // 2 + 1
    assert run_in_container(image, edits, "allocate", "1024")["status"] == "0"
    assert run_in_container(image, edits, "allocate", "2048")["status"] == str(OUT_OF_MEMORY)
    assert hardware.compute_mode(gpu.uuid) is ComputeMode.DEFAULT
    node.unprepare(claim)
    assert list_daemons() == []


def test_the_end_of_one_claim_does_not_concern_the_other(node: Harness, gpu: Gpu, image: Path) -> None:
    claims = [allocate(node, gpu) for _ in range(2)]
    prepared = [node.prepare(claim).edits for claim in claims]
    assert [run_in_container(image, edits, "add")["sum"] for edits in prepared] == [str(SUM)] * 2
    node.unprepare(claims[0])
    assert run_in_container(image, prepared[1], "add")["sum"] == str(SUM)
    node.unprepare(claims[1])


def test_a_daemon_outlives_the_driver(node: Harness, gpu: Gpu, image: Path) -> None:
    claim = allocate(node, gpu)
    edits = node.prepare(claim).edits
    node.restart()
    assert run_in_container(image, edits, "add")["sum"] == str(SUM)
    assert node.prepare(claim).edits == edits
    node.unprepare(claim)


def test_a_daemon_may_serve_several_users(node: Harness, gpu: Gpu, image: Path) -> None:
    claim = allocate(node, gpu, MpsConfig(multi_user=True))
    edits = node.prepare(claim).edits
    assert run_in_container(image, edits, "add")["sum"] == str(SUM)
    node.unprepare(claim)


def test_a_server_without_the_limits_is_killed(
    node: Harness, gpu: Gpu, image: Path, cuda_program: Path
) -> None:
    """A container that is still running may connect to a restarted daemon before the limits are sent."""
    whole = run_cuda(cuda_program, gpu, "allocate", "2048").stdout
    claim = allocate(node, gpu, MpsConfig())
    edits, uid = node.prepare(claim).edits, claim.metadata.uid
    assert run_in_container(image, edits, "allocate", "2048") == parse(whole)
    host, limits = make_host(node.driver.data_dir / "mps"), {gpu.uuid: 2048}
    (server,) = host._send(uid, "get_server_list").split()
    host.configure(MpsDaemon(claim=uid, devices=(gpu.uuid,), active_thread_percentage=25, memory_limits=limits))
    facts = run_in_container(image, edits, "allocate", "2048")
    assert facts["status"] == str(OUT_OF_MEMORY)
    assert int(facts["multiprocessors"]) <= int(parse(whole)["multiprocessors"]) // 4 + 1
    assert server not in host._send(uid, "get_server_list").split()
    node.unprepare(claim)


def test_a_limit_for_an_ordinal_has_the_same_effect(
    node: Harness, gpu: Gpu, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some versions of NVIDIA's program apply no limit for a UUID."""
    send = NodeMpsHost._send

    def send_no_uuid(host: NodeMpsHost, claim: str, request: str, seconds: float | None = None) -> str:
        return "" if gpu.uuid in request else send(host, claim, request, seconds)

    monkeypatch.setattr(NodeMpsHost, "_send", send_no_uuid)
    claim = allocate(node, gpu)
    edits = node.prepare(claim).edits
    assert run_in_container(image, edits, "allocate", "1024")["status"] == "0"
    assert run_in_container(image, edits, "allocate", "2048")["status"] == str(OUT_OF_MEMORY)
    node.unprepare(claim)


def test_a_limit_that_the_daemon_rejects_is_an_error(
    node: Harness, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's program ends with status 0 then."""
    send = NodeMpsHost._send

    def send_nonsense(host: NodeMpsHost, claim: str, request: str, seconds: float | None = None) -> str:
        return send(host, claim, request.replace("2048M", "much"), seconds)

    monkeypatch.setattr(NodeMpsHost, "_send", send_nonsense)
    claim = allocate(node, gpu)
    with pytest.raises(dra.DraError, match=r"a memory limit of 2048 MiB for .* is rejected"):
        node.prepare(claim)
    node.unprepare(claim)
    assert list_daemons() == []
