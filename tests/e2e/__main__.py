"""Start a cluster for your own kubectl and helm, until Ctrl-C: `python -m tests.e2e`.

Each node has the driver's image, so that `docs/operate.md` can be followed from top to bottom.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.e2e import host
from tests.e2e.bed.bed import BedError
from tests.e2e.bed.cluster import Cluster, start_cluster
from tests.e2e.bed.control_plane import ALL_GATES
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.leftovers import Machine
from tests.e2e.bed.nodes import driver_image, images
from tests.e2e.bed.nodes.node import Node
from tests.e2e.bed.programs import KUBERNETES, program

EXAMPLES_IMAGE: Final = "docker.io/library/busybox:1.36"
"""The image of the examples' pods: the nodes' BusyBox under that name."""
COMMANDS: Final[Mapping[str, Callable[[Node], None]]] = {
    "stop": Node.stop,
    "kill": Node.kill,
    "start": Node.start,
    "reboot": Node.reboot,
}
"""Functions of the commands on stdin."""


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; end the process if it is invalid."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, choices=range(1, len(NODES) + 1), default=2, help="number of nodes; default 2"
    )
    parser.add_argument(
        "--emulated-version",
        default="",
        metavar="MINOR",
        help="an older minor (1.34 to 1.36) for the control plane to behave as, with its gates as shipped; "
        f"without: {KUBERNETES} with every gate of dynamic resource allocation on",
    )
    return parser.parse_args(arguments)


def print_progress(line: str) -> None:
    """Print one line of progress and flush it, also into a pipe."""
    print(line, flush=True)


def add_node(cluster: Cluster, name: str, archive: Path) -> None:
    """Start a node with the images that the documentation and the examples use. Blocking."""
    print_progress(f"{name}: containerd and kubelet ...")
    node = cluster.node(name)
    node.import_image(archive)
    node.ctr("images", "tag", images.BUSYBOX, EXAMPLES_IMAGE)


def describe(cluster: Cluster, names: tuple[str, ...]) -> str:
    """Return the commands to type in another terminal."""
    folders = dict.fromkeys(str(program(each).parent) for each in ("kubectl", "helm"))
    path = ":".join((*folders, str(Path(sys.executable).parent)))
    first, second = (f"{driver_image.IMAGE}:{tag}" for tag in driver_image.TAGS)
    return "\n".join(
        (
            "",
            f"The cluster is ready: {', '.join(names)}. In another terminal:",
            "",
            f"  export KUBECONFIG={cluster.kubeconfig()}",
            f"  export PATH={path}:$PATH",
            "",
            f"  helm install dradriver {driver_image.ROOT / 'packaging' / 'chart'} --namespace dradriver \\",
            f"    --set image.repository={driver_image.IMAGE} --set image.tag={driver_image.TAGS[0]} \\",
            "    --set image.pullPolicy=Never --set drivers.loop.enabled=true",
            "",
            f"Images on each node (there is no registry): {first}, the same as {second} to upgrade",
            f"to, and {EXAMPLES_IMAGE}. kubeletRootDir is /var/lib/kubelet, as pods see it; from here it is",
            *(f"  {name}: {cluster.node(name).root}" for name in names),
            f"Logs of kubelets, containerd and the control plane: {cluster.bed.folder}/*.log",
            "",
            f"Here: {', '.join(f'{each} NODE' for each in COMMANDS)} (a kubelet; reboot: the whole node).",
            "Ctrl-C ends the cluster.",
        )
    )


def run_command(line: str, nodes: Mapping[str, Node]) -> str:
    """Run a command from stdin and return its result as text. Blocking."""
    words = line.split()
    if not words:
        return ""
    if len(words) != 2 or words[0] not in COMMANDS or words[1] not in nodes:
        return f"valid input: {'|'.join(COMMANDS)} {'|'.join(nodes)}"
    try:
        COMMANDS[words[0]](nodes[words[1]])
    except BedError as error:
        return str(error)
    return f"{line.strip()}: done"


def run_until_interrupted(nodes: Mapping[str, Node]) -> None:
    """Run commands from stdin until Ctrl-C or SIGTERM; the end of stdin does not end the cluster."""
    while line := sys.stdin.readline():
        if result := run_command(line, nodes):
            print_progress(result)
    while True:
        signal.pause()


def interrupt(number: int, frame: object) -> None:
    """End the cluster; later signals are ignored."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(wanted: argparse.Namespace) -> None:
    """Start a cluster and run until interrupted. Blocking."""
    print_progress("the driver's image ...")
    archive = driver_image.archive()
    names = NODES[: wanted.nodes]
    print_progress(f"control plane: Kubernetes {wanted.emulated_version or KUBERNETES} ...")
    gates = {} if wanted.emulated_version else ALL_GATES
    with start_cluster(gates, emulated_version=wanted.emulated_version) as cluster:
        try:
            for name in names:
                add_node(cluster, name, archive)
            print_progress(describe(cluster, names))
            run_until_interrupted({name: cluster.node(name) for name in names})
        except KeyboardInterrupt:
            print_progress("ending ...")


def main() -> None:
    """Start a cluster, run until interrupted, and check that the machine is as it was before."""
    wanted = parse_options()
    if reason := host.missing():
        sys.exit(f"{reason}; `python -m tests.e2e.host` prepares a machine")
    machine = Machine()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        run(wanted)
    except KeyboardInterrupt:
        print_progress("ended before the cluster was ready")
    except BedError as error:
        print_progress(str(error))
        sys.exit(1)
    if left := machine.differences():
        sys.exit("the machine is not as it was found:\n" + "\n".join(left))
    print_progress(f"The machine is as it was found: {', '.join(machine.compared)}.")


if __name__ == "__main__":
    main()
