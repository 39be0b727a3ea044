"""The tutorial from page 2 to page 7: all commands, and a RAM disk in a container of a real node."""

import pytest

from tests.e2e.bed.cluster import Cluster
from tests.e2e.chart.helm import on_bed
from tests.e2e.walkthrough.bed_reader import opened_bed_reader
from tests.walkthrough.pages import PAGES

pytestmark = pytest.mark.timeout(900)


def test_a_reader_gets_from_an_empty_folder_to_a_disk_on_a_node(real_cluster: Cluster) -> None:
    helm = on_bed(real_cluster.bed, "dradriver-ramdisk")
    with opened_bed_reader(real_cluster) as reader:
        for name in ("2-new.md", "3-partitions.md", "4-configuration.md", "5-health.md"):
            reader.read(PAGES[name], name=name)
        reader.stop()
        reader.keep(f"export KUBECONFIG={real_cluster.kubeconfig()}")
        try:
            for name in ("6-image.md", "7-helm.md"):
                reader.read(PAGES[name], name=name)
        finally:
            # Without the driver, no pod with a device ends.
            real_cluster.kubectl("delete", "pod", "df", "few-files", "--ignore-not-found")
            helm.uninstall("ramdisk")
            real_cluster.kubectl("delete", "namespace", helm.namespace, "--ignore-not-found")
