"""Two claims on one GPU share no file: each container reaches only the daemon of its own claim."""

import subprocess

import pytest

from dradriver_gpu_mig.mps import MpsFolders, make_mps_edits
from tests.drivers.gpu_mig.mps.benches import PROGRAM, NodeBench, make_daemon, open_daemons

CLAIM = "2f0e4f6c-6c1e-4c43-8a3e-0d8c33b8a001"
OTHER = "2f0e4f6c-6c1e-4c43-8a3e-0d8c33b8a002"
PERCENTAGES = {CLAIM: 30, OTHER: 70}
"""A daemon is known by its percentage."""
ASK_PERCENTAGE = "get_default_active_thread_percentage\n"

CONTAINER = """
set -eu
root=$1 variable=$2
shift 2
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
exec env -i PATH=/usr/bin:/sbin "$variable" CUDA_MPS_LOG_DIRECTORY=/tmp chroot "$root" "$@"
"""


def run_in_container(node: NodeBench, claim: str, *command: str, text: str = "") -> str:
    """Run a command that sees the mounts of a claim's edits, and nothing else of the claims."""
    edits = make_mps_edits(MpsFolders(node.folder), claim)
    (variable,) = edits.env
    mounts = [path for each in edits.mounts for path in (each.host_path, each.container_path)]
    unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh")
    return node.run(*unshare, str(node.root), variable, *mounts, "--", *command, text=text)


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_edits_of_two_claims_share_no_path_of_the_node(node: NodeBench) -> None:
    folders = MpsFolders(node.folder)
    first, second = make_mps_edits(folders, CLAIM), make_mps_edits(folders, OTHER)
    paths = [{each.host_path for each in edits.mounts} for edits in (first, second)]
    assert not paths[0] & paths[1]
    assert str(folders.log(CLAIM)) not in paths[0]
    assert [each.container_path for each in first.mounts] == ["/tmp/nvidia-mps", "/dev/shm"]
    for mount in first.mounts:
        assert {"rw", "nosuid", "nodev"} < set(mount.options)


async def test_a_container_reaches_only_the_daemon_of_its_claim(node: NodeBench) -> None:
    daemons = open_daemons(node)
    for claim, percentage in PERCENTAGES.items():
        await daemons.start(make_daemon(claim, percentage=percentage))
    assert node.identity(CLAIM) != node.identity(OTHER)
    for claim, percentage in PERCENTAGES.items():
        pid = node.identity(claim)
        assert run_in_container(node, claim, PROGRAM, text=ASK_PERCENTAGE) == f"{percentage}.0\n"
        assert run_in_container(node, claim, "ls", "/dev/shm").split() == [f"cuda.mps.{pid}"]
        assert run_in_container(node, claim, "ls", "/tmp/nvidia-mps").split() == ["control"]
        assert run_in_container(node, claim, "ls", "/run/dradriver-mps").split() == []


async def test_the_end_of_one_daemon_does_not_concern_the_other(node: NodeBench) -> None:
    daemons = open_daemons(node)
    for claim, percentage in PERCENTAGES.items():
        await daemons.start(make_daemon(claim, percentage=percentage))
    await daemons.stop(CLAIM)
    assert run_in_container(node, OTHER, PROGRAM, text=ASK_PERCENTAGE) == f"{PERCENTAGES[OTHER]}.0\n"


async def test_a_link_in_the_pipe_folder_does_not_lead_the_daemon_to_the_node(node: NodeBench) -> None:
    await open_daemons(node).start(make_daemon(CLAIM))
    pid = node.identity(CLAIM)
    if not any("nosymfollow" in line for line in node.mounts(pid)):
        pytest.skip("this machine's kernel or mount does not have nosymfollow")
    (node.root / "run/secret").write_text("of the node")
    (node.folder / CLAIM / "pipe/control.pid").symlink_to("/run/secret")
    view = ("nsenter", "--target", str(pid), "--mount", "--root", "--wd=/", "--")
    assert succeeds(*view, "cat", "/run/secret")
    assert not succeeds(*view, "cat", "/run/dradriver-mps/pipe/control.pid")
