"""A bed reverts all its changes, and the next bed those of a bed whose process was killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.e2e.bed import cgroups, changes
from tests.e2e.bed.cluster import Cluster

SCRIPT = """
import sys
from tests.e2e.bed.cluster import start_cluster
with start_cluster() as cluster:
    cluster.node()
    run = ("run", "pod", "--image=busybox", "--image-pull-policy=Never", "--", "sleep", "infinity")
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    cluster.kubectl(*run)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/pod", "--timeout=60s")
    print(cluster.bed.folder.name, cluster.bed.network.api, flush=True)
    sys.stdin.read()
"""


def start() -> tuple[subprocess.Popen[str], str, str]:
    """Start another process with a cluster that runs a pod; return its bed's name and address."""
    process = subprocess.Popen(
        (sys.executable, "-c", SCRIPT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    name, address = process.stdout.readline().split()
    return process, name, address


def commands() -> Iterator[str]:
    """Return the command lines of all processes."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        # A process can end at any time.
        with suppress(OSError):
            yield each.read_text()


def traces(name: str, address: str) -> list[str]:
    """Return the traces of a bed on the machine."""
    prefix = ".".join(address.split(".")[1:3])
    addresses = subprocess.run(("ip", "-4", "address"), check=True, capture_output=True, text=True).stdout
    links = [line for line in addresses.splitlines() if f"{prefix}." in line or address in line]
    # `glob` fails if another program removes a group meanwhile.
    groups = [folder for folder, _, _ in os.walk(cgroups.ROOT) if Path(folder).name == name]
    running = [each for each in commands() if name in each]
    return [*links, *groups, *running, *(str(each) for each in changes.PLACE.glob(name))]


def test_when_it_is_stopped(real_cluster: Cluster) -> None:
    process, name, address = start()
    assert len(traces(name, address)) > 10
    process.communicate("")
    assert process.returncode == 0
    assert traces(name, address) == []


def test_when_its_process_is_killed(real_cluster: Cluster) -> None:
    process, name, address = start()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert traces(name, address)
    changes.sweep()
    # The kernel kills the processes that are in no control group when their parent ends; this takes a moment.
    deadline = time.monotonic() + 20
    while traces(name, address) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert traces(name, address) == []
    assert real_cluster.node().get()["metadata"]["name"] == "node-1", "another bed goes on meanwhile"
