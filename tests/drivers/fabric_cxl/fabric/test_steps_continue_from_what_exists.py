"""The next step of attach and detach, from the objects that exist."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, FabricHealth, MemoryRequest
from dradriver_fabric_cxl.fabric.objects import (
    ChunkObject,
    ConnectionObject,
    ObjectKind,
    RunningTask,
    TaggedObjects,
)
from dradriver_fabric_cxl.fabric.steps import (
    AskedRequests,
    Blocked,
    CreateObject,
    DeleteObject,
    ExpectObject,
    Finished,
    FollowTask,
    GiveUp,
    WaitForObject,
    list_attachments,
    next_attach_step,
    next_detach_step,
)

IDENTITY = AttachmentIdentity("claim", "pool", "device", "now")
REQUEST = AttachRequest(IDENTITY, "host-1", MemoryRequest("domain", 1024))
ACCELERATOR = AttachRequest(IDENTITY, "host-1", "gpu")
TASK = RunningTask("/tasks/1", IDENTITY, ObjectKind.CHUNK)


def chunk(name: str = "a", *, enabled: bool = True) -> ChunkObject:
    return ChunkObject(f"/chunks/{name}", "v1", IDENTITY, 1024, enabled, FabricHealth.OK, 7)


def connection(
    name: str = "a", *, host: str = "host-1", to: str = "a", enabled: bool = True, mine: bool = True
) -> ConnectionObject:
    identity = IDENTITY if mine else None
    target = f"/chunks/{to}" if to else ""
    return ConnectionObject(f"/connections/{name}", "v1", identity, host, target, enabled, FabricHealth.OK)


def attach(*objects: ChunkObject | ConnectionObject | RunningTask, request: AttachRequest = REQUEST) -> object:
    return next_attach_step(collect(*objects), request, AskedRequests())


def collect(*objects: ChunkObject | ConnectionObject | RunningTask) -> TaggedObjects:
    return TaggedObjects(
        tuple(each for each in objects if isinstance(each, ChunkObject)),
        tuple(each for each in objects if isinstance(each, ConnectionObject)),
        tuple(each for each in objects if isinstance(each, RunningTask)),
    )


def test_memory_is_attached_in_the_order_of_the_table() -> None:
    assert attach() == CreateObject(ObjectKind.CHUNK)
    assert attach(TASK) == FollowTask(TASK)
    assert attach(chunk(enabled=False)) == WaitForObject("/chunks/a")
    assert attach(chunk()) == CreateObject(ObjectKind.CONNECTION, "/chunks/a")
    assert attach(chunk(), connection(enabled=False)) == WaitForObject("/connections/a")
    assert isinstance(attach(chunk(), connection()), Finished)


def test_a_task_is_followed_until_its_object_is_enabled() -> None:
    connecting = RunningTask("/tasks/2", IDENTITY, ObjectKind.CONNECTION)
    deleting = RunningTask("/tasks/3", None, None)
    assert attach(TASK, chunk(enabled=False)) == FollowTask(TASK)
    assert attach(TASK, chunk()) == CreateObject(ObjectKind.CONNECTION, "/chunks/a")
    assert attach(connecting, chunk(), connection(enabled=False)) == FollowTask(connecting)
    assert attach(connecting, chunk(), connection(host="host-2")) == FollowTask(connecting)
    assert isinstance(attach(connecting, TASK, chunk(), connection()), Finished)
    assert attach(deleting, chunk(), connection()) == FollowTask(deleting)
    assert attach(TASK, replace(TASK, path="/tasks/4"), chunk()) == FollowTask(TASK)


def test_an_accelerator_needs_only_a_connection() -> None:
    assert attach(request=ACCELERATOR) == CreateObject(ObjectKind.CONNECTION)
    assert isinstance(attach(connection(to=""), request=ACCELERATOR), Finished)


def test_a_connection_to_another_host_is_removed_first() -> None:
    assert attach(chunk(), connection(host="host-2")) == DeleteObject("/connections/a", "v1")


def test_of_two_chunks_the_connected_one_stays() -> None:
    assert attach(chunk("a"), chunk("b"), connection(to="b")) == DeleteObject("/chunks/a", "v1")
    assert attach(chunk("a"), chunk("b")) == DeleteObject("/chunks/b", "v1")


def test_of_two_connections_one_stays() -> None:
    assert attach(chunk(), connection("a"), connection("b")) == DeleteObject("/connections/b", "v1")


def test_a_connection_to_a_lost_chunk_is_removed() -> None:
    assert attach(connection(to="lost")) == DeleteObject("/connections/a", "v1")


def test_a_chunk_that_somebody_else_connected_is_left_alone() -> None:
    objects = collect(chunk(), connection(mine=False))
    blocked = Blocked("/connections/a", "/chunks/a")
    assert next_attach_step(objects, REQUEST, AskedRequests()) == blocked
    assert next_detach_step(objects, AskedRequests()) == blocked


def test_an_object_is_asked_for_twice_at_most() -> None:
    asked = AskedRequests({ObjectKind.CHUNK: 1})
    assert next_attach_step(collect(), REQUEST, asked) == CreateObject(ObjectKind.CHUNK)
    asked.created[ObjectKind.CHUNK] = 2
    assert next_attach_step(collect(), REQUEST, asked) == GiveUp(ObjectKind.CHUNK)


def test_an_object_that_was_asked_for_is_looked_for_before_it_is_asked_for_again() -> None:
    asked = AskedRequests({ObjectKind.CHUNK: 1}, expected={ObjectKind.CHUNK})
    assert next_attach_step(collect(), REQUEST, asked) == ExpectObject(ObjectKind.CHUNK)
    assert next_attach_step(collect(chunk()), REQUEST, asked) == CreateObject(
        ObjectKind.CONNECTION, "/chunks/a"
    )


@pytest.mark.parametrize(("lost", "only"), [(1, False), (2, True)])
def test_it_is_known_whether_only_answers_were_lost(lost: int, only: bool) -> None:
    asked = AskedRequests({ObjectKind.CHUNK: 2}, lost={ObjectKind.CHUNK: lost})
    assert next_attach_step(collect(), REQUEST, asked) == GiveUp(ObjectKind.CHUNK, lost=only)


def test_detach_goes_the_same_way_back() -> None:
    asked = AskedRequests()
    assert next_detach_step(collect(TASK, chunk()), asked) == FollowTask(TASK)
    assert next_detach_step(collect(chunk(), connection()), asked) == DeleteObject("/connections/a", "v1")
    assert next_detach_step(collect(chunk()), asked) == DeleteObject("/chunks/a", "v1")
    assert next_detach_step(collect(), asked) == Finished(None)


def test_an_accepted_deletion_is_waited_for() -> None:
    asked = AskedRequests(deleted={"/connections/a"})
    assert next_detach_step(collect(chunk(), connection()), asked) == WaitForObject("/connections/a")


def test_an_attachment_has_the_worst_health_of_its_objects() -> None:
    sick = replace(chunk(), health=FabricHealth.CRITICAL)
    warned = replace(connection(), health=FabricHealth.WARNING)
    (attachment,) = list_attachments(collect(sick, warned))
    assert attachment.health is FabricHealth.CRITICAL
    (attachment,) = list_attachments(collect(chunk(), warned))
    assert attachment.health is FabricHealth.WARNING


NAMES = st.sampled_from("abc")
ANY_CHUNKS = st.lists(
    st.builds(chunk, NAMES, enabled=st.booleans()), max_size=3, unique_by=lambda each: each.path
)
ANY_CONNECTIONS = st.lists(
    st.builds(
        connection,
        NAMES,
        host=st.sampled_from(["host-1", "host-2"]),
        to=st.sampled_from("abcd"),
        enabled=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda each: each.path,
)


def take(objects: TaggedObjects, step: object) -> TaggedObjects:
    """What a manager makes of a step."""
    match step:
        case DeleteObject(path=path):
            return TaggedObjects(
                tuple(each for each in objects.chunks if each.path != path),
                tuple(each for each in objects.connections if each.path != path),
            )
        case WaitForObject(path=path):
            return TaggedObjects(
                tuple(replace(each, enabled=each.enabled or each.path == path) for each in objects.chunks),
                tuple(replace(each, enabled=each.enabled or each.path == path) for each in objects.connections),
            )
        case CreateObject(kind=ObjectKind.CHUNK):
            return replace(objects, chunks=(chunk("new", enabled=False),))
        case CreateObject(chunk=path):
            made = connection("new", to=path.removeprefix("/chunks/"), enabled=False)
            return replace(objects, connections=(*objects.connections, made))
        case _:
            pytest.fail(f"unexpected step: {step}")


@given(ANY_CHUNKS, ANY_CONNECTIONS)
def test_every_mixture_ends_in_one_chunk_with_one_connection(
    chunks: list[ChunkObject], connections: list[ConnectionObject]
) -> None:
    objects = collect(*chunks, *connections)
    for _ in range(20):
        step = next_attach_step(objects, REQUEST, AskedRequests())
        if isinstance(step, Finished):
            break
        objects = take(objects, step)
    assert len(objects.chunks) == 1
    assert [(each.host, each.chunk) for each in objects.connections] == [("host-1", objects.chunks[0].path)]


@given(ANY_CHUNKS, ANY_CONNECTIONS)
def test_no_chunk_is_removed_while_it_is_connected(
    chunks: list[ChunkObject], connections: list[ConnectionObject]
) -> None:
    objects = collect(*chunks, *connections)
    for _ in range(20):
        step = next_detach_step(objects, AskedRequests())
        if isinstance(step, Finished):
            break
        assert isinstance(step, DeleteObject)
        assert step.path not in {each.chunk for each in objects.connections}
        objects = take(objects, step)
    assert objects == TaggedObjects()
