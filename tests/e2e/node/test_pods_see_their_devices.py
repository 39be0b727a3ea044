"""On a real kubelet and containerd a container has the prepared devices of its claim."""

import json

from tests.e2e.node.site import DRIVER, Site, card_container

METADATA = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims"


async def test_a_container_has_only_its_card(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one", "env; ls /dev")
    await site.wait_for_phase("pod", "Succeeded")
    lines = (await site.logs("pod")).splitlines()
    (variable,) = [line for line in lines if line.startswith("CARD_")]
    card = variable.partition("=")[2]
    assert [line for line in lines if line.startswith("card-")] == [card]


async def test_a_device_node_is_that_of_the_host(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one", "stat -c '%F %t:%T' /dev/card-*")
    await site.wait_for_phase("pod", "Succeeded")
    assert await site.logs("pod") == "character special file 1:7\n"


async def test_a_container_reads_the_metadata_of_its_card(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one", f"cat {METADATA}/one/card/{DRIVER}-metadata.json")
    await site.wait_for_phase("pod", "Succeeded")
    document = json.loads((await site.logs("pod")).splitlines()[0])
    (device,) = document["requests"][0]["devices"]
    assert device["attributes"]["serial"]["string"] == f"serial-of-{device['name']}"


async def test_a_container_that_names_no_claim_sees_no_card(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    mine = card_container("ls /dev", resources={"claims": [{"name": "card"}]})
    other = card_container("ls /dev", name="other")
    claims = [{"name": "card", "resourceClaimName": "one"}]
    await site.create_pod_with_spec("pod", {"containers": [mine, other], "resourceClaims": claims})
    await site.wait_for_phase("pod", "Succeeded")
    assert "card-" in await site.logs("pod")
    assert "card-" not in await site.logs("pod", "other")


async def test_two_pods_share_a_claim_and_its_card(site: Site) -> None:
    await site.start_driver()
    uid = await site.create_claim("shared")
    for name in ("first", "second"):
        await site.create_pod(name, "shared")
        await site.wait_for_phase(name, "Running")
    await site.wait_for_prepared({uid})
    await site.delete_pod("first")
    await site.wait_for_deletion("first")
    await site.wait_for_prepared({uid})
    await site.delete_pod("second")
    await site.wait_for_deletion("second")
    await site.wait_for_prepared(set())


async def test_the_status_of_the_claim_has_the_data_of_the_driver(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one")
    await site.wait_for_phase("pod", "Running")

    async def reported_data() -> list[dict[str, str]]:
        return [device.get("data", {}) for device in (await site.claim_status("one")).get("devices", [])]

    (data,) = await site.until("status.devices", reported_data)
    assert data["card"].startswith("card-")


async def test_the_health_of_a_card_is_in_the_status_of_the_pod(site: Site) -> None:
    await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one")
    await site.wait_for_phase("pod", "Running")
    (result,) = (await site.claim_status("one"))["allocation"]["devices"]["results"]
    for word in ("Healthy", "Unhealthy", "Healthy"):
        site.set_health(result["device"], word)
        await site.until(f"{word} card", lambda w=word: _health_is(site, w))  # type: ignore[misc]


async def _health_is(site: Site, word: str) -> bool:
    pod = await site.get_pod("pod")
    assert pod is not None
    statuses = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus", [])
    return [resource["health"] for status in statuses for resource in status["resources"]] == [word]
