"""A daemon outlives the process, the process group and the cgroup of the driver that started it."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from dradriver_gpu_mig.mps import DaemonState, MpsDaemonStore
from dradriver_gpu_mig.mps.steps import ObservedDaemon
from tests.drivers.gpu_mig.mps.benches import GPU, NodeBench, make_daemon, open_daemons
from tests.e2e.bed import cgroups

CLAIM = "2f0e4f6c-6c1e-4c43-8a3e-0d8c33b8a001"
JOIN = 'echo $$ > "$1/cgroup.procs"; echo 500 > /proc/self/oom_score_adj; shift; exec "$@"'


def read_namespace(pid: int, name: str) -> Path:
    return Path("/proc", str(pid), "ns", name).readlink()


async def test_a_daemon_answers_after_the_driver_was_killed(node: NodeBench) -> None:
    pod = f"{node.cgroup_root.name}/pod-{uuid.uuid4()}"
    group = node.cgroup_root.parent / pod
    group.mkdir()
    arguments = {
        "folder": str(node.folder),
        "root": str(node.root),
        "target": node.node.pid,
        "cgroup_root": str(node.cgroup_root),
        "claim": CLAIM,
    }
    program = [sys.executable, "-m", "tests.drivers.gpu_mig.mps.start_one", json.dumps(arguments)]
    command = ["sh", "-c", JOIN, "sh", str(group), *program]
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in the loop
        command, stdout=subprocess.PIPE, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"started\n"
        assert driver.pid in cgroups.list_processes(pod)
        os.killpg(driver.pid, signal.SIGKILL)
        cgroups.kill(pod)
    assert cgroups.list_processes(pod) == set()
    assert node.host().observe(CLAIM) is ObservedDaemon.ANSWERING
    pid = node.identity(CLAIM)
    assert pid in node.processes(CLAIM)
    assert Path("/proc", str(pid), "oom_score_adj").read_text() == "0\n"

    daemons = open_daemons(node)
    assert await daemons.recover({CLAIM}) == []
    record = MpsDaemonStore(node.folder).get(CLAIM)
    assert record is not None
    assert record.state is DaemonState.READY
    await daemons.start(make_daemon(CLAIM))
    assert node.identity(CLAIM) == pid
    assert node.limits(CLAIM) == (50, {GPU: 1024})
    await daemons.stop(CLAIM)
    assert node.processes(CLAIM) == set()


async def test_a_daemon_has_no_namespace_of_the_driver(node: NodeBench) -> None:
    await open_daemons(node).start(make_daemon(CLAIM))
    pid = node.identity(CLAIM)
    assert os.getsid(pid) != os.getsid(0)
    for name in ("cgroup", "ipc", "net", "pid", "uts"):
        assert read_namespace(pid, name) == read_namespace(node.node.pid, name)
    assert read_namespace(pid, "mnt") != read_namespace(node.node.pid, "mnt")
