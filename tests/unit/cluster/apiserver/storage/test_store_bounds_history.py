"""The history of changes is bounded, and requests for older changes are answered with 410."""

import asyncio
import json

from dradriver.cluster.apiserver import ApiServer, Fault
from tests.conformance.apiserver.suite import DRA, MERGE, Api, claim, config_map
from tests.unit.cluster.apiserver.conftest import Connect, StartServer

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_watch_from_a_compacted_revision_ends_with_410(
    start_server: StartServer, connect: Connect
) -> None:
    api = connect(await start_server(history=3))
    first = (await api.make(MAPS, config_map("a")))["metadata"]["resourceVersion"]
    for index in range(5):
        await api.call("PATCH", f"{MAPS}/a", {"data": {"a": str(index)}}, content_type=MERGE)
    (event,) = await api.watch(MAPS, 1, resourceVersion=first)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {first}")


async def test_a_page_of_a_compacted_revision_is_410(start_server: StartServer, connect: Connect) -> None:
    api = connect(await start_server(history=3))
    for index in range(3):
        await api.make(MAPS, config_map(f"m{index}"))
    token = (await api.call("GET", MAPS, params={"limit": "1"})).json["metadata"]["continue"]
    for index in range(5):
        await api.call("PATCH", f"{MAPS}/m0", {"data": {"a": f"x{index}"}}, content_type=MERGE)
    answer = await api.call("GET", MAPS, params={"limit": "1", "continue": token})
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    rest = await api.call("GET", MAPS, params={"continue": answer.json["metadata"]["continue"]})
    assert [each["metadata"]["name"] for each in rest.json["items"]] == ["m1", "m2"]


async def test_the_history_is_bounded_in_bytes(api: Api) -> None:
    first = (await api.make(MAPS, config_map("a")))["metadata"]["resourceVersion"]
    for index in range(12):
        big = {"data": {"a": "x" * 900_000 + str(index)}}
        assert (await api.call("PATCH", f"{MAPS}/a", big, content_type=MERGE)).status == 200
    (event,) = await api.watch(MAPS, 1, resourceVersion=first)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_packed_changes_equal_the_original_ones(api: Api) -> None:
    claims = f"{DRA}/namespaces/default/resourceclaims"
    made = await api.make(claims, claim("a", b'{"b":1.0,"a":"x"}'))
    for index in range(100):
        changed = {"metadata": {"labels": {"index": str(index)}}}
        assert (await api.call("PATCH", f"{claims}/a", changed, content_type=MERGE)).status == 200
    params = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    (then,) = (await api.call("GET", claims, params=params)).json["items"]
    assert then == made
    events = await api.watch(claims, 100, resourceVersion=made["metadata"]["resourceVersion"])
    assert [each["object"]["metadata"]["labels"]["index"] for each in events] == [str(i) for i in range(100)]
    labeled = {"resourceVersion": made["metadata"]["resourceVersion"], "labelSelector": "index=3"}
    events = await api.watch(claims, 2, **labeled)
    assert [each["type"] for each in events] == ["ADDED", "DELETED"]


async def test_a_broken_continue_token_is_a_bad_request(api: Api) -> None:
    assert (await api.call("GET", MAPS, params={"continue": "nonsense"})).status == 400


async def test_an_exact_list_shows_the_requested_revision(api: Api) -> None:
    made = await api.make(MAPS, config_map("a"))
    await api.call("PATCH", f"{MAPS}/a", {"data": {"a": "2"}}, content_type=MERGE)
    await api.make(MAPS, config_map("b"))
    params = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    items = (await api.call("GET", MAPS, params=params)).json["items"]
    assert [(each["metadata"]["name"], each["data"]) for each in items] == [("a", {"a": "1"})]


async def test_a_watch_after_a_restart_must_list_again(start_server: StartServer, connect: Connect) -> None:
    server = await start_server()
    old = (await connect(server).make(MAPS, config_map("a")))["metadata"]["resourceVersion"]
    await connect(server).make(MAPS, config_map("b"))
    await server.stop()
    api = connect(await start_server())
    (event,) = await api.watch(MAPS, 1, resourceVersion=old)
    assert event["object"]["code"] == 410


async def test_bookmarks_report_progress_without_changes(start_server: StartServer, connect: Connect) -> None:
    api = connect(await start_server(bookmark_seconds=0.01))
    start = (await api.call("GET", MAPS)).json["metadata"]["resourceVersion"]
    made = await api.make(
        "/api/v1/namespaces/default/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    )
    (event,) = await api.watch(MAPS, 1, resourceVersion=start, allowWatchBookmarks="true")
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ConfigMap"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_a_watch_ends_when_its_time_is_up(api: Api) -> None:
    answer = await api.call(
        "GET", MAPS, params={"watch": "1", "timeoutSeconds": "1", "fieldSelector": "metadata.name=none"}
    )
    assert (answer.status, answer.raw) == (200, b"")


async def test_stopping_the_server_ends_its_watches(start_server: StartServer, connect: Connect) -> None:
    server = await start_server()
    api = connect(server)
    await api.make(MAPS, config_map("a"))
    watching = asyncio.create_task(api.call("GET", MAPS, params={"watch": "1"}))
    while not server.faults.rules:
        server.faults.add(Fault(verb="none"))
        await api.call("GET", MAPS)
    await server.stop()
    done, _ = await asyncio.wait({watching}, timeout=10)
    assert done
    assert (
        watching.exception() is not None or json.loads(watching.result().raw.splitlines()[0])["type"] == "ADDED"
    )


async def test_compaction_drops_the_history_at_once(server: ApiServer, api: Api) -> None:
    old = (await api.make(MAPS, config_map("a")))["metadata"]["resourceVersion"]
    await api.make(MAPS, config_map("b"))
    server.compact()
    (event,) = await api.watch(MAPS, 1, resourceVersion=old)
    assert event["object"]["code"] == 410


async def test_a_disconnected_watch_leaves_no_listener(server: ApiServer, api: Api) -> None:
    await api.make(MAPS, config_map("a"))
    assert server._store is not None
    listeners = server._store._get_collection("/configmaps").listeners
    await api.watch(MAPS, 1)
    while listeners:
        await asyncio.sleep(0.005)
    assert listeners == []
