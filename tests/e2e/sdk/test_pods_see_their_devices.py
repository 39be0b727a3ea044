"""What the driver prepared is in the container that asked for it, on a real kubelet and containerd."""

import json

from tests.e2e.sdk.site import DRIVER, Site, card_container

METADATA = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims"


async def test_a_container_has_its_card_and_no_other(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one", "env; ls /dev")
    await site.phase("pod", "Succeeded")
    lines = (await site.logs("pod")).splitlines()
    (variable,) = [line for line in lines if line.startswith("CARD_")]
    card = variable.partition("=")[2]
    assert [line for line in lines if line.startswith("card-")] == [card]


async def test_a_device_node_is_the_hosts(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one", "stat -c '%F %t:%T' /dev/card-*")
    await site.phase("pod", "Succeeded")
    assert await site.logs("pod") == "character special file 1:7\n"


async def test_a_container_reads_the_metadata_of_its_card(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one", f"cat {METADATA}/one/card/{DRIVER}-metadata.json")
    await site.phase("pod", "Succeeded")
    document = json.loads((await site.logs("pod")).splitlines()[0])
    (device,) = document["requests"][0]["devices"]
    assert device["attributes"]["serial"]["string"] == f"serial-of-{device['name']}"


async def test_a_container_that_names_no_claim_sees_no_card(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    mine = card_container("ls /dev", resources={"claims": [{"name": "card"}]})
    other = card_container("ls /dev", name="other")
    claims = [{"name": "card", "resourceClaimName": "one"}]
    await site.bare_pod("pod", {"containers": [mine, other], "resourceClaims": claims})
    await site.phase("pod", "Succeeded")
    assert "card-" in await site.logs("pod")
    assert "card-" not in await site.logs("pod", "other")


async def test_two_pods_share_a_claim_and_its_card(site: Site) -> None:
    await site.start_driver()
    uid = await site.claim("shared")
    for name in ("first", "second"):
        await site.pod(name, "shared")
        await site.phase(name, "Running")
    await site.all_views_are({uid})
    await site.delete_pod("first")
    await site.gone("first")
    await site.all_views_are({uid})
    await site.delete_pod("second")
    await site.gone("second")
    await site.all_views_are(set())


async def test_the_claims_status_says_what_the_driver_told(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one")
    await site.phase("pod", "Running")

    async def told() -> list[dict[str, str]]:
        return [device.get("data", {}) for device in (await site.claim_status("one")).get("devices", [])]

    (data,) = await site.until("status.devices", told)
    assert data["card"].startswith("card-")


async def test_the_health_of_a_card_is_in_the_pods_status(site: Site) -> None:
    await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one")
    await site.phase("pod", "Running")
    (result,) = (await site.claim_status("one"))["allocation"]["devices"]["results"]
    for word in ("Healthy", "Unhealthy", "Healthy"):
        site.tell_health(result["device"], word)
        await site.until(f"{word} card", lambda w=word: _health_is(site, w))  # type: ignore[misc]


async def _health_is(site: Site, word: str) -> bool:
    pod = await site.get_pod("pod")
    assert pod is not None
    statuses = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus", [])
    return [resource["health"] for status in statuses for resource in status["resources"]] == [word]
