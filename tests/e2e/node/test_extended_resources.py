"""A pod requests cards like CPUs (KEP-5004): kube-scheduler creates the claim, the driver prepares it."""

from typing import Any

import pytest

from tests.e2e.node.site import DRIVER, EXTENDED_RESOURCE, Site, card_container

IMPLICIT = f"deviceclass.resource.kubernetes.io/{DRIVER}"


@pytest.mark.parametrize("resource", [EXTENDED_RESOURCE, IMPLICIT], ids=["explicit name", "implicit name"])
async def test_a_container_gets_the_requested_number_of_cards(site: Site, resource: str) -> None:
    await site.start_driver()
    asked = card_container("ls /dev", resources={"requests": {resource: "2"}, "limits": {resource: "2"}})
    await site.create_pod_with_spec("pod", {"containers": [asked]})
    await site.wait_for_phase("pod", "Succeeded")
    assert len([line for line in (await site.logs("pod")).split() if line.startswith("card-")]) == 2
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.wait_for_prepared(set())


async def test_init_containers_sidecars_and_containers_see_their_own_cards(site: Site) -> None:
    """The init container uses main's cards and one more; the sidecar keeps its own."""
    await site.start_driver()

    def asking(name: str, cards: int, script: str = "ls /dev", **more: Any) -> dict[str, Any]:
        limits = {EXTENDED_RESOURCE: str(cards)} if cards else {}
        return card_container(script, **{"name": name, "resources": {"limits": limits}, **more})

    init = [
        asking("setup", 3),
        asking("side", 1, "ls /dev; trap 'exit 0' TERM; sleep infinity & wait", restartPolicy="Always"),
    ]
    await site.create_pod_with_spec(
        "pod", {"initContainers": init, "containers": [asking("main", 2), asking("none", 0)]}
    )
    await site.wait_for_phase("pod", "Succeeded")
    seen = {}
    for name in ("setup", "side", "main", "none"):
        lines = (await site.logs("pod", name)).split()
        seen[name] = {line for line in lines if line.startswith("card-")}
    assert {name: len(cards) for name, cards in seen.items()} == {"setup": 3, "side": 1, "main": 2, "none": 0}
    assert not seen["side"] & seen["main"]
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.wait_for_prepared(set())
