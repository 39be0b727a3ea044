"""The extender beside a Kubernetes 1.37 that emulates older versions."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from dradriver.kube import CLAIMS, PODS
from dradriver.testing import builders
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.scheduling.scheduled_cluster import connect

pytestmark = pytest.mark.timeout(900)

DRIVER: Final = builders.DRIVER


@pytest.fixture
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        yield made


def start(bed: ApiServerBed, version: str) -> None:
    """Start or restart the control plane with the same state, as a version."""
    for name in ("extended-scheduler", "dradriver-scheduler"):
        bed.end(name)
    bed.serve(None, None, emulated_version=version)
    url = start_extender(bed, "--no-leader-elect")
    versioned = (f"--emulated-version={version}",)
    start_kube_scheduler(bed, write_config(bed, url), "extended-scheduler", versioned)


async def test_pods_with_claims_are_bound_while_the_version_rises(bed: ApiServerBed) -> None:
    bound: list[str] = []
    for version in ("1.34", "1.35", "1.36", "1.37"):
        await asyncio.to_thread(start, bed, version)
        async with connect(bed) as plane:
            if not bound:
                await plane.node("node-1")
                await plane.devices("node-1", DRIVER, 8)
                await plane.device_class(DRIVER, DRIVER)
            name = f"pod-{version.replace('.', '-')}"
            claim = builders.claim(builders.device_request(count=2), name=name)
            await plane.client.create(CLAIMS, claim, "default", into=dict)
            container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
            spec = {
                "schedulerName": "dradriver",
                "containers": [container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            }
            await plane.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
            bound.append(name)
            await plane.bound(*bound, seconds=60)
