"""`python -m tests.e2e`: a cluster for one's own kubectl and helm, until Ctrl-C.

It has the driver's image on each node, so that `docs/operate.md` can be walked from top to bottom.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.e2e import driver_image, host, images
from tests.e2e.bed import BedError
from tests.e2e.cluster import Cluster, start_cluster
from tests.e2e.control_plane import ALL_GATES
from tests.e2e.credentials import NODES
from tests.e2e.leftovers import Machine
from tests.e2e.node import Node
from tests.e2e.programs import KUBERNETES, program

EXAMPLES_IMAGE: Final = "docker.io/library/busybox:1.36"
"""What the pods of the examples ask for: the nodes' BusyBox under that name."""
COMMANDS: Final[Mapping[str, Callable[[Node], None]]] = {
    "stop": Node.stop,
    "kill": Node.kill,
    "start": Node.start,
    "reboot": Node.reboot,
}
"""What a line on stdin does to a node."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What was asked for; ends the process if that can't be."""
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


def say(line: str) -> None:
    """One line of progress; at once, also into a pipe."""
    print(line, flush=True)


def add_node(cluster: Cluster, name: str, archive: Path) -> None:
    """A node with the images that the documentation and the examples use. Blocking."""
    say(f"{name}: containerd and kubelet ...")
    node = cluster.node(name)
    node.import_image(archive)
    node.ctr("images", "tag", images.BUSYBOX, EXAMPLES_IMAGE)


def describe(cluster: Cluster, names: tuple[str, ...]) -> str:
    """What to type in another terminal."""
    folders = dict.fromkeys(str(program(each).parent) for each in ("kubectl", "helm"))
    path = ":".join((*folders, str(Path(sys.executable).parent)))
    first, second = (f"{driver_image.IMAGE}:{tag}" for tag in driver_image.TAGS)
    return "\n".join(
        (
            "",
            f"The cluster is there: {', '.join(names)}. In another terminal:",
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


def obey(line: str, nodes: Mapping[str, Node]) -> str:
    """Do what a line asks for; what came of it. Blocking."""
    words = line.split()
    if not words:
        return ""
    if len(words) != 2 or words[0] not in COMMANDS or words[1] not in nodes:
        return f"what can be said here: {'|'.join(COMMANDS)} {'|'.join(nodes)}"
    try:
        COMMANDS[words[0]](nodes[words[1]])
    except BedError as error:
        return str(error)
    return f"{line.strip()}: done"


def stay(nodes: Mapping[str, Node]) -> None:
    """Obey what is typed, until Ctrl-C or SIGTERM; the end of stdin is no reason to go."""
    while line := sys.stdin.readline():
        if said := obey(line, nodes):
            say(said)
    while True:
        signal.pause()


def interrupt(number: int, frame: object) -> None:
    """Ends the cluster; once is enough, what follows does not disturb the end."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(wanted: argparse.Namespace) -> None:
    """Start a cluster and stay. Blocking."""
    say("the driver's image ...")
    archive = driver_image.archive()
    names = NODES[: wanted.nodes]
    say(f"control plane: Kubernetes {wanted.emulated_version or KUBERNETES} ...")
    gates = {} if wanted.emulated_version else ALL_GATES
    with start_cluster(gates, emulated_version=wanted.emulated_version) as cluster:
        try:
            for name in names:
                add_node(cluster, name, archive)
            say(describe(cluster, names))
            stay({name: cluster.node(name) for name in names})
        except KeyboardInterrupt:
            say("ending ...")


def main() -> None:
    """Start a cluster, stay, and leave the machine as it was found."""
    wanted = options()
    if reason := host.missing():
        sys.exit(f"{reason}; `python -m tests.e2e.host` prepares a machine")
    machine = Machine()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        run(wanted)
    except KeyboardInterrupt:
        say("ended before it was there")
    except BedError as error:
        say(str(error))
        sys.exit(1)
    if left := machine.differences():
        sys.exit("the machine is not as it was found:\n" + "\n".join(left))
    say(f"The machine is as it was found: {', '.join(machine.compared)}.")


if __name__ == "__main__":
    main()
