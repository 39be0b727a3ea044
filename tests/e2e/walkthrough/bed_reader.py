"""A reader whose cluster is the bed: no package index, no registry, and an image that no podman builds.

`pip` finds third-party packages in this environment, and builds wheels without the index. The handler of
`podman build` puts the same wheels into an image and imports it into the node, where `podman push` would have
brought it.
"""

import json
import os
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import yaml

from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.nodes import driver_image, images, kube_scheduler_image
from tests.e2e.bed.programs import program
from tests.walkthrough.reader import Handler, Reader, opened_folder

__all__ = ["opened_bed_reader"]

_OFFLINE: Final = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip's name of the option is negated: 0 means without isolation
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
BUSYBOX: Final = "docker.io/library/busybox:1.36"
_POD: Final = "run-image"
_CHOSEN: Final = {"nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
"""The node that has the images."""
SCHEDULER: Final = "registry.example.com/kube-scheduler"


class _BedCommands:
    """What is executed on the bed instead of the commands that need an index, a registry or podman."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._node = cluster.node()

    @property
    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by the pattern of their commands."""
        return {
            r"python3 -m venv ": self._make_environment,
            r"podman build -t ": self._build_image,
            r"podman run ": self._run_image,
            r"podman push ": self._push_image,
            r"helm install ": self._install_chart,
        }

    def _make_environment(self, reader: Reader, command: str) -> str:
        printed = _run(reader, command)
        environment = reader.working_folder / command.rsplit(maxsplit=1)[-1]
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "third-party.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        return printed

    def _build_image(self, reader: Reader, command: str) -> str:
        project = reader.working_folder
        _run(reader, "pip wheel --no-deps --wheel-dir wheels .")
        (install,) = re.findall(r"pip install .*", (project / "Containerfile").read_text())
        extra = "scheduler" if "dradriver[scheduler]" in install else ""
        archive = reader.folder / "image.tar"
        wheels = (project / "wheels").glob("*.whl")
        driver_image.write_of_wheels(archive, command.split()[3], wheels, extra)
        self._node.import_image(archive)
        return ""

    def _run_image(self, reader: Reader, command: str) -> str:
        """Run the program of the image in a pod, and return its output."""
        _, _, options = command.partition(" --rm ")
        image, *words = options.split()
        run = ("run", _POD, f"--image={image}", "--image-pull-policy=Never", "--restart=Never")
        overrides = json.dumps({"spec": _CHOSEN})
        self._cluster.kubectl(*run, f"--overrides={overrides}", "--", *words)
        try:
            succeeded = "--for=jsonpath={.status.phase}=Succeeded"
            self._cluster.kubectl("wait", f"pod/{_POD}", succeeded, "--timeout=2m")
            return self._cluster.kubectl("logs", _POD)
        finally:
            self._cluster.kubectl("delete", "pod", _POD)

    def _push_image(self, reader: Reader, command: str) -> str:
        assert command.rsplit(maxsplit=1)[-1] in self._images()
        return ""

    def _install_chart(self, reader: Reader, command: str) -> str:
        """Install the chart on the node that has the image."""
        given = yaml.safe_load((reader.working_folder / "values.yaml").read_text())
        drivers = {
            name: {**_CHOSEN, **({"webhook": _CHOSEN} if "webhook" in settings else {})}
            for name, settings in given["drivers"].items()
        }
        if "scheduler" in given:
            self._import_kube_scheduler()
        values = {"kubeletRootDir": str(self._node.root), "drivers": drivers, "scheduler": _CHOSEN}
        path = reader.folder / "bed.yaml"
        path.write_text(yaml.safe_dump(values))
        return _run(reader, f"{command} --values {path}")

    def _import_kube_scheduler(self) -> None:
        self._node.import_image(kube_scheduler_image.archive())
        prefix = f"{kube_scheduler_image.IMAGE}:"
        (stored,) = (each for each in self._images() if each.startswith(prefix))
        self._node.ctr("images", "tag", "--force", stored, f"{SCHEDULER}:{stored.removeprefix(prefix)}")

    def _images(self) -> list[str]:
        return self._node.ctr("images", "ls", "-q").split()


def _run(reader: Reader, command: str) -> str:
    done = reader.run(command)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@contextmanager
def _only_schedulable(cluster: Cluster, name: str) -> Iterator[None]:
    """Cordon the nodes that other tests have started: they have neither the images nor the driver."""
    found = cluster.kubectl("get", "nodes", "--output=name").split()
    others = [each for each in found if each != f"node/{name}"]
    if others:
        cluster.kubectl("cordon", *others)
    try:
        yield
    finally:
        if others:
            cluster.kubectl("uncordon", *others)


@contextmanager
def opened_bed_reader(cluster: Cluster) -> Iterator[Reader]:
    """Yield a reader in a new folder, with kubectl and helm for the cluster."""
    node = cluster.node()
    node.ctr("images", "tag", "--force", images.BUSYBOX, BUSYBOX)
    programs = ":".join(str(program(name).parent) for name in ("helm", "kubectl"))
    variables = {**_OFFLINE, "PATH": f"{programs}:{os.environ['PATH']}"}
    handlers = _BedCommands(cluster).handlers
    with (
        _only_schedulable(cluster, NODES[0]),
        opened_folder() as folder,
        Reader(folder, handlers, up_options="--runtime process", variables=variables) as reader,
    ):
        yield reader
