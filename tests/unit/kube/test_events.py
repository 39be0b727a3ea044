"""Events are written with counts, rate limits and a queue."""

import pytest

from dradriver.kube import Client, EventRecorder
from dradriver.kube import events as events_module
from dradriver.model.core.meta import ObjectReference
from tests.unit.kube.scripted import Answer, ScriptedServer, status

POD = ObjectReference(api_version="v1", kind="Pod", namespace="n", name="p", uid="u")
PATH = "/api/v1/namespaces/n/events"


async def test_a_repeated_event_increments_its_count(server: ScriptedServer, client: Client) -> None:
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


async def test_an_event_that_expired_on_the_server_is_created_again(
    server: ScriptedServer, client: Client
) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com")
    await recorder.emit(POD, "Normal", "Prepared", "ready")
    await recorder.emit(POD, "Normal", "Prepared", "ready")  # the event does not exist on the server: 404
    assert len(server.calls("POST", PATH)) == 2


async def test_a_rejected_event_raises_no_error(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, status(403, "Forbidden", "no"))
    await EventRecorder(client, "d.example.com").emit(POD, "Normal", "Prepared", "ready")
    assert len(server.asked) == 1


async def test_queued_events_are_written_in_the_background_and_at_the_end(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_DRAIN_SECONDS", 20.0)
    server.on("POST", PATH, Answer(201, {}))
    async with EventRecorder(client, "d.example.com") as recorder:
        for number in range(3):
            await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
        assert not server.calls("POST", PATH)
    assert len(server.calls("POST", PATH)) == 3


async def test_events_beyond_the_queue_are_dropped(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    async with EventRecorder(client, "d.example.com") as recorder:
        for number in range(2000):
            await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
        assert recorder._queue.qsize() == 1000


async def test_a_long_name_is_shortened_to_a_valid_name(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    pod = ObjectReference(api_version="v1", kind="Pod", namespace="n", name="p" * 199 + "-1", uid="u")
    await EventRecorder(client, "d.example.com").emit(pod, "Normal", "Prepared", "ready")
    (created,) = server.calls("POST", PATH)
    assert created.json["metadata"]["name"].startswith("p" * 199 + ".")


async def test_events_about_one_object_are_rate_limited_and_counted(
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


async def test_the_rate_limit_is_per_object(server: ScriptedServer, client: Client) -> None:
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com", burst=1)
    for name in ("p", "q"):
        pod = ObjectReference(api_version="v1", kind="Pod", namespace="n", name=name, uid=name)
        for number in range(3):
            await recorder.emit(pod, "Normal", "Prepared", f"device {number}")
    assert [asked.json["involvedObject"]["name"] for asked in server.calls("POST", PATH)] == ["p", "q"]


async def test_rejected_events_are_logged_once_until_one_is_accepted(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dradriver")
    recorder = EventRecorder(client, "d.example.com")
    server.on("POST", PATH, *[status(403, "Forbidden", "no rights") for _ in range(3)], Answer(201, {}))
    for number in range(4):
        await recorder.emit(POD, "Normal", "Prepared", f"device {number}")
    assert caplog.text.count("no rights") == 1
    assert "events are written again, 3 were lost" in caplog.text


async def test_an_event_posted_before_the_start_is_written(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_DRAIN_SECONDS", 20.0)
    server.on("POST", PATH, Answer(201, {}))
    recorder = EventRecorder(client, "d.example.com")
    recorder.post(POD, "Normal", "Prepared", "ready")
    async with recorder:
        pass
    assert len(server.calls("POST", PATH)) == 1
