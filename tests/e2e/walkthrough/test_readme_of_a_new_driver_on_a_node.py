"""A driver that `dradriver new` wrote gets to a pod on a real node by the commands of its README alone."""

from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from dradriver.cli import main
from tests.e2e.bed.cluster import Cluster
from tests.e2e.chart.helm import on_bed
from tests.e2e.walkthrough.bed_reader import opened_bed_reader

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("options", [(), ("--classic",)], ids=["node driver", "controller"])
def test_a_pod_gets_its_device_by_the_readme_alone(real_cluster: Cluster, options: Sequence[str]) -> None:
    helm = on_bed(real_cluster.bed, "dradriver-my-led")
    helm.delete_definitions()  # those of other tests belong to no release
    with opened_bed_reader(real_cluster) as reader:
        project = reader.folder / "dradriver-my-led"
        written = CliRunner().invoke(main, ["new", "my-led", f"--directory={project}", *options])
        assert written.exit_code == 0, written.output
        readme = (project / "README.md").read_text()
        reader.keep(f"cd {project}")
        reader.read(readme, name="README.md", until="On a cluster")
        reader.stop()
        reader.keep(f"export KUBECONFIG={real_cluster.kubeconfig()}")
        try:
            reader.read(readme, name="README.md", after="On a cluster")
        finally:
            helm.uninstall("my-led")
            if options:
                helm.delete_definitions()
            real_cluster.kubectl("delete", "namespace", helm.namespace, "--ignore-not-found")
