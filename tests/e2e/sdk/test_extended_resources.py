"""A pod asks for cards as it asks for CPUs (KEP-5004): kube-scheduler makes the claim, the driver serves it."""

import pytest

from tests.e2e.sdk.site import DRIVER, EXTENDED_RESOURCE, Site, card_container

IMPLICIT = f"deviceclass.resource.kubernetes.io/{DRIVER}"


@pytest.mark.parametrize("resource", [EXTENDED_RESOURCE, IMPLICIT], ids=["explicit name", "implicit name"])
async def test_a_container_gets_as_many_cards_as_it_asks_for(site: Site, resource: str) -> None:
    await site.start_driver()
    asked = card_container("ls /dev", resources={"requests": {resource: "2"}, "limits": {resource: "2"}})
    await site.bare_pod("pod", {"containers": [asked]})
    await site.phase("pod", "Succeeded")
    assert len([line for line in (await site.logs("pod")).split() if line.startswith("card-")]) == 2
    await site.delete_pod("pod")
    await site.gone("pod")
    await site.all_views_are(set())
