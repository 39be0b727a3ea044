"""A pod asks for cards as it asks for CPUs (KEP-5004): kube-scheduler makes the claim, the driver serves it."""

from typing import Any

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


async def test_init_containers_sidecars_and_containers_see_their_own_cards(site: Site) -> None:
    """The first uses what main will have and one card more; the sidecar keeps its own."""
    await site.start_driver()

    def asking(name: str, cards: int, script: str = "ls /dev", **more: Any) -> dict[str, Any]:
        limits = {EXTENDED_RESOURCE: str(cards)} if cards else {}
        return card_container(script, **{"name": name, "resources": {"limits": limits}, **more})

    init = [
        asking("setup", 3),
        asking("side", 1, "ls /dev; trap 'exit 0' TERM; sleep infinity & wait", restartPolicy="Always"),
    ]
    await site.bare_pod("pod", {"initContainers": init, "containers": [asking("main", 2), asking("none", 0)]})
    await site.phase("pod", "Succeeded")
    seen = {}
    for name in ("setup", "side", "main", "none"):
        lines = (await site.logs("pod", name)).split()
        seen[name] = {line for line in lines if line.startswith("card-")}
    assert {name: len(cards) for name, cards in seen.items()} == {"setup": 3, "side": 1, "main": 2, "none": 0}
    assert not seen["side"] & seen["main"]
    await site.delete_pod("pod")
    await site.gone("pod")
    await site.all_views_are(set())
