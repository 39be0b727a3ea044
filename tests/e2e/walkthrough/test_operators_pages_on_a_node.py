"""An operator gets from an empty node to a running pod, and to a node without the driver, by one page.

The nodes of the bed have no cards, so the drivers simulate them.
"""

import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.nodes import driver_image
from tests.e2e.chart.helm import on_bed
from tests.e2e.walkthrough.bed_reader import opened_bed_reader
from tests.walkthrough.reader import Handler, Reader

pytestmark = pytest.mark.timeout(900)

_ROOT: Final = Path(__file__).parents[3]
_PAGES: Final = _ROOT / "docs" / "how-to"
_SIMULATED: Final = [{"name": "DRADRIVER_SIMULATE", "value": "always"}]


class _Operator:
    """What is executed instead of commands that need a registry or a card.

    Args:
        cluster: the cluster of the bed.
        driver: the driver's key in the chart's values.
    """

    def __init__(self, cluster: Cluster, driver: str) -> None:
        self._cluster = cluster
        self._driver = driver

    @property
    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by the pattern of their commands."""
        return {
            "podman build ": self._import_image,
            "podman push ": lambda *_: "",
            "helm (install|upgrade) ": self._run_helm,
        }

    def _import_image(self, _: Reader, command: str) -> str:
        """Import the image under its name, and under the name of the version to which the page upgrades."""
        node = self._cluster.node()
        node.import_image(driver_image.archive())
        name = command.partition(" -t ")[2].split()[0]
        for tag in (name, name.replace("0.1.0", "0.2.0")):
            node.ctr("images", "tag", "--force", f"{driver_image.IMAGE}:{driver_image.TAGS[0]}", tag)
        return ""

    def _run_helm(self, reader: Reader, command: str) -> str:
        # Other nodes of the bed, which other tests have made, do not have the image.
        node = {"kubernetes.io/hostname": self._cluster.node().name}
        driver: dict[str, Any] = {"env": _SIMULATED, "nodeSelector": node}
        if self._driver == "fpga":
            driver["settings"] = {"bitstreams": {"folder": ""}}  # the bitstreams that the simulator has itself
        values = {"kubeletRootDir": str(self._cluster.node().root), "drivers": {self._driver: driver}}
        path = reader.folder / "bed.yaml"
        path.write_text(yaml.safe_dump(values))
        done = reader.run(f"{command} --values {path}")
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.mark.parametrize(("page", "driver"), [("run-gpus.md", "gpu-mig"), ("run-fpgas.md", "fpga")])
def test_an_operator_gets_from_an_empty_node_to_a_pod_and_back(
    real_cluster: Cluster, page: str, driver: str
) -> None:
    helm = on_bed(real_cluster.bed, "dradriver")
    with opened_bed_reader(real_cluster) as reader, reader.replacing(_Operator(real_cluster, driver).handlers):
        # The pages are read in a checkout, whose files the reader must not change.
        for folder in ("drivers", "packaging"):
            (reader.folder / folder).symlink_to(_ROOT / folder)
        programs = shlex.quote(str(Path(sys.executable).parent))
        reader.keep(f'export PATH={programs}:"$PATH"')
        reader.keep(f"export KUBECONFIG={real_cluster.kubeconfig()}")
        try:
            reader.read((_PAGES / page).read_text(), name=page)
        finally:
            real_cluster.kubectl("uncordon", NODES[0])
            helm.uninstall("dradriver")
            real_cluster.kubectl("delete", "namespace", helm.namespace, "--ignore-not-found")
