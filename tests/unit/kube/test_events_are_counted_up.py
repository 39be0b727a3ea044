import pytest

from dradriver.kube import Client, EventRecorder
from dradriver.model.core.meta import ObjectReference
from tests.unit.kube.scripted import Answer, ScriptedServer, status

POD = ObjectReference(api_version="v1", kind="Pod", namespace="n", name="p", uid="u")
PATH = "/api/v1/namespaces/n/events"


async def test_the_same_event_again_is_one_event_with_a_count(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com", "node-1")
    await recorder.emit(POD, "Warning", "PrepareFailed", "no such device")
    (created,) = server.calls("POST", PATH)
    name = created.json["metadata"]["name"]
    assert created.json["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "n",
        "name": "p",
        "uid": "u",
    }
    assert created.json["source"] == {"component": "d.example.com", "host": "node-1"}
    server.on("PATCH", f"{PATH}/{name}", Answer(body={}))
    await recorder.emit(POD, "Warning", "PrepareFailed", "no such device")
    await recorder.emit(POD, "Warning", "PrepareFailed", "no such device")
    assert [asked.json["count"] for asked in server.calls("PATCH", f"{PATH}/{name}")] == [2, 3]
    await recorder.emit(POD, "Warning", "PrepareFailed", "another reason")
    assert len(server.calls("POST", PATH)) == 2


async def test_an_event_that_expired_on_the_server_is_written_anew(
    server: ScriptedServer, client: Client
) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com")
    await recorder.emit(POD, "Normal", "Prepared", "ready")
    await recorder.emit(POD, "Normal", "Prepared", "ready")  # the server knows no such event: 404
    assert len(server.calls("POST", PATH)) == 2


async def test_an_event_that_cannot_be_written_stops_nothing(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, status(403, "Forbidden", "no"))
    await EventRecorder(client, "d.example.com").emit(POD, "Normal", "Prepared", "ready")
    assert len(server.asked) == 1


async def test_in_the_background_nobody_waits_and_the_last_ones_are_still_written(
    server: ScriptedServer, client: Client
) -> None:
    server.on("POST", PATH, Answer(201, {}))
    async with EventRecorder(client, "d.example.com") as recorder:
        for number in range(3):
            await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
        assert not server.calls("POST", PATH)
    assert len(server.calls("POST", PATH)) == 3


async def test_in_the_background_too_many_events_are_dropped(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    async with EventRecorder(client, "d.example.com") as recorder:
        for number in range(2000):
            await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
        assert recorder._waiting.qsize() == 1000


async def test_a_long_name_is_cut_where_a_name_may_end(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    pod = ObjectReference(api_version="v1", kind="Pod", namespace="n", name="p" * 199 + "-1", uid="u")
    await EventRecorder(client, "d.example.com").emit(pod, "Normal", "Prepared", "ready")
    (created,) = server.calls("POST", PATH)
    assert created.json["metadata"]["name"].startswith("p" * 199 + ".")


async def test_about_one_object_there_are_few_and_the_next_one_counts_them_all(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("dradriver.kube.events.time.monotonic", lambda: now)
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com", burst=3)
    await recorder.emit(POD, "Warning", "PrepareFailed", "no")
    path = f"{PATH}/{server.calls('POST', PATH)[0].json['metadata']['name']}"
    server.on("PATCH", path, Answer(body={}))
    for _ in range(10):
        await recorder.emit(POD, "Warning", "PrepareFailed", "no")
    assert [asked.json["count"] for asked in server.calls("PATCH", path)] == [2, 3]
    now += 300
    await recorder.emit(POD, "Warning", "PrepareFailed", "no")
    assert [asked.json["count"] for asked in server.calls("PATCH", path)] == [2, 3, 12]


async def test_one_object_takes_no_events_from_another(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com", burst=1)
    for name in ("p", "q"):
        pod = ObjectReference(api_version="v1", kind="Pod", namespace="n", name=name, uid=name)
        for number in range(3):
            await recorder.emit(pod, "Normal", "Prepared", f"device {number}")
    assert [asked.json["involvedObject"]["name"] for asked in server.calls("POST", PATH)] == ["p", "q"]


async def test_a_server_that_refuses_events_is_said_once_until_it_takes_one(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dradriver")
    recorder = EventRecorder(client, "d.example.com")
    server.on("POST", PATH, *[status(403, "Forbidden", "no rights") for _ in range(3)], Answer(201, {}))
    for number in range(4):
        await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
    assert caplog.text.count("no rights") == 1
    assert "events are written again, 3 were lost" in caplog.text


async def test_what_was_posted_before_it_runs_is_written(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com")
    recorder.post(POD, "Normal", "Prepared", "ready")
    async with recorder:
        pass
    assert len(server.calls("POST", PATH)) == 1
