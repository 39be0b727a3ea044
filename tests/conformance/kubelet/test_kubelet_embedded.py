"""The embedded kubelet passes the kubelet suite."""

from dataclasses import replace

import pytest

from tests.conformance.kubelet.embedded import TIMINGS, EmbeddedNode, api, client, lab, node_client
from tests.conformance.kubelet.lab import Lab
from tests.conformance.kubelet.suite import KubeletSuite

__all__ = ["api", "client", "lab", "node_client"]


class TestEmbeddedKubelet(KubeletSuite):
    """Containers are plain processes for speed, except where a case needs a container runtime."""

    @pytest.mark.parametrize("lab", ["podman", "runc"], indirect=True)
    async def test_device_metadata_is_mounted(self, lab: Lab) -> None:
        await super().test_device_metadata_is_mounted(lab)

    @pytest.mark.parametrize("lab", ["podman", "runc"], indirect=True)
    async def test_a_device_node_is_in_its_container_alone(self, lab: Lab) -> None:
        await super().test_a_device_node_is_in_its_container_alone(lab)

    # A busy machine may need more than the usual five seconds to start the driver again.
    @pytest.mark.parametrize("lab", [replace(TIMINGS, slice_cleanup=12.0)], indirect=True, ids=["patient"])
    async def test_slices_stay_if_the_driver_returns_in_time(self, lab: Lab) -> None:
        await super().test_slices_stay_if_the_driver_returns_in_time(lab)

    async def logs(self, lab: Lab, pod: str, container: str) -> str:
        assert isinstance(lab.node, EmbeddedNode)
        return await lab.node.logs(pod, container)
