"""Garbage collection of dependents with the three propagation policies of a delete."""

from typing import Any

from tests.conformance.apiserver.suite import DRA, Api, claim, config_map, pod
from tests.unit.cluster.apiserver.storage.test_namespaces import until

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def owned_by(*owners: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": each["apiVersion"],
            "kind": each["kind"],
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
            **more,
        }
        for each in owners
    ]


def policy(name: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": name}


async def test_background_deletion_deletes_dependents(api: Api) -> None:
    owner = await api.make(PODS, pod("p"))
    await api.make(MAPS, config_map("child", ownerReferences=owned_by(owner)))
    await api.call("DELETE", f"{PODS}/p")
    await until(api, f"{MAPS}/child", 404)


async def test_a_dependent_stays_while_one_owner_exists(api: Api) -> None:
    one, two = [await api.make(MAPS, config_map(name)) for name in ("one", "two")]
    await api.make(MAPS, config_map("child", ownerReferences=owned_by(one, two)))
    await api.call("DELETE", f"{MAPS}/one")
    await api.make(MAPS, config_map("orphan", ownerReferences=[{**owned_by(one)[0]}]))
    await until(api, f"{MAPS}/orphan", 404)
    left = (await api.call("GET", f"{MAPS}/child")).json["metadata"]["ownerReferences"]
    assert [each["name"] for each in left] == ["two"]
    await api.call("DELETE", f"{MAPS}/two")
    await until(api, f"{MAPS}/child", 404)


async def test_an_owner_with_another_uid_does_not_count(api: Api) -> None:
    owner = await api.make(MAPS, config_map("owner"))
    reference = {**owned_by(owner)[0], "uid": "00000000-0000-0000-0000-000000000000"}
    await api.make(MAPS, config_map("child", ownerReferences=[reference]))
    await until(api, f"{MAPS}/child", 404)


async def test_orphans_stay_without_the_owner_reference(api: Api) -> None:
    owner = await api.make(MAPS, config_map("owner"))
    await api.make(MAPS, config_map("child", ownerReferences=owned_by(owner)))
    await api.call("DELETE", f"{MAPS}/owner", policy("Orphan"))
    await until(api, f"{MAPS}/owner", 404)
    assert "ownerReferences" not in (await api.call("GET", f"{MAPS}/child")).json["metadata"]


async def test_an_owner_deleted_in_the_foreground_waits_for_blocking_dependents(api: Api) -> None:
    owner = await api.make(MAPS, config_map("owner"))
    blocking = owned_by(owner, blockOwnerDeletion=True)
    await api.make(MAPS, config_map("child", ownerReferences=blocking, finalizers=["example.com/hold"]))
    answer = await api.call("DELETE", f"{MAPS}/owner", policy("Foreground"))
    assert answer.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    deleting = f"{MAPS}/child"
    while "deletionTimestamp" not in (await api.call("GET", deleting)).json["metadata"]:
        pass
    assert (await api.call("GET", f"{MAPS}/owner")).status == 200
    patch = {"metadata": {"finalizers": None}}
    await api.call("PATCH", deleting, patch, content_type="application/merge-patch+json")
    await until(api, f"{MAPS}/owner", 404)


async def test_a_claim_created_for_a_pod_is_deleted_with_the_pod(api: Api) -> None:
    owner = await api.make(PODS, pod("p"))
    made = claim("c").replace(
        b'"name": "c"', b'"name": "c", "ownerReferences": ' + str(owned_by(owner)).replace("'", '"').encode()
    )
    await api.make(f"{DRA}/namespaces/default/resourceclaims", made)
    await api.call("DELETE", f"{PODS}/p")
    await until(api, f"{DRA}/namespaces/default/resourceclaims/c", 404)
