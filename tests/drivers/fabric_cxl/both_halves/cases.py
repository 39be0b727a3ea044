"""Cases of both drivers of a fabric, for every scheduler.

Each case is a function that gets two nodes with running drivers, and starts the pool driver. At its end nothing
is attached. `CASES` must run with a scheduler that waits long, `time_out` with one that does not.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from dradriver_fabric_cxl.fabric.simulator import FabricCall
from dradriver_fabric_cxl.names import ATTACHED, READY
from tests.drivers.fabric_cxl.both_halves.halves import ACCELERATOR, MEMORY, Halves
from tests.drivers.fabric_cxl.both_halves.held_manager import HeldManager

Case: TypeAlias = Callable[[Halves], Awaitable[None]]


async def accelerator(halves: Halves) -> None:
    """The second story of KEP-5007: the pod is bound after the fabric and the node have attached it."""
    await halves.start_pools()
    end = halves.record()
    halves.hold(FabricCall.CREATE_CONNECTION)
    await halves.create_pod(ACCELERATOR)
    await halves.until(lambda: halves.is_allocated() and halves.is_held())
    assert not halves.node_of()
    assert not halves.edits(halves.nominated())
    halves.release()
    node = await halves.bound()
    end()
    seen = [each & {ATTACHED, READY} for each in halves.history]
    assert list(dict.fromkeys(seen)) == [frozenset(), {ATTACHED}, {ATTACHED, READY}]
    assert halves.connected() == [halves.hosts()[node]]

    assert not await halves.prepare()
    edits = halves.edits(node)
    assert [each["path"] for one in edits for each in one.get("deviceNodes", ())] == ["/dev/dri/renderD128"]
    assert [each for one in edits for each in one.get("env", ())] == ["CXL_ACCELERATOR_GPU_0=0000:c1:00.0"]
    await end_pod(halves, node)


async def time_out(halves: Halves) -> None:
    """The manager takes longer than the scheduler waits; then the pod gets memory on another host."""
    await halves.start_pools()
    halves.hold(FabricCall.CREATE_CHUNK)
    await halves.create_pod(MEMORY)
    await halves.until(lambda: halves.is_allocated() and halves.is_held())
    first = halves.nominated()
    await halves.cordon(first)
    # The time may be over before the node is cordoned. Then the scheduler may choose the node once more.
    await halves.until(lambda: halves.nominated() != first)
    assert not halves.node_of()
    halves.release()
    node = await halves.bound()
    assert node != first
    await halves.until(lambda: halves.connected() == [halves.hosts()[node]])
    await halves.until(lambda: len(halves.fabric().objects) == 2)
    assert not await halves.prepare()
    await end_pod(halves, node)


async def failed_port(halves: Halves) -> None:
    """The port of a host fails: the waiting pod gets another device, and the next pod another host."""
    await halves.start_pools()
    halves.hold(FabricCall.CREATE_CONNECTION)
    await halves.create_pod(MEMORY)
    await halves.until(lambda: halves.is_allocated() and halves.is_held())
    failed, first = halves.claim().results[0].device, halves.nominated()
    halves.fail_held_port()
    node = await halves.bound()
    assert halves.claim().results[0].device != failed
    await halves.until(lambda: not halves.offered_to(first) - halves.lab.tainted())
    second = f"{halves.name}-second"
    await halves.create_pod(MEMORY, second)
    other = await halves.bound(second)
    assert other != first
    await halves.until(lambda: len(halves.fabric().objects) == 4)
    assert sorted(halves.connected()) == sorted(halves.hosts()[each] for each in (node, other))
    await halves.delete_pod(second)
    await halves.delete_claim(second)
    await end_pod(halves, node, prepared=False)


def cleared_while(call: FabricCall) -> Case:
    """Return a case: the pod is deleted while the manager executes a request."""

    async def case(halves: Halves) -> None:
        await halves.start_pools()
        halves.hold(call)
        await halves.create_pod(MEMORY)
        await halves.until(lambda: halves.is_allocated() and halves.is_held())
        await halves.delete_pod()
        await halves.until(lambda: not halves.is_allocated())
        halves.release()
        await halves.delete_claim()
        await halves.until(halves.is_empty)

    return case


async def cleared_while_a_manager_connects(halves: Halves) -> None:
    """The pod is deleted while the hardware behind a Redfish manager carries out its request."""
    with HeldManager(halves.folder / "manager") as manager:
        await halves.start_pools(driver=lambda: manager.make_driver(halves.nodes))
        await halves.create_pod(MEMORY)
        await halves.until(manager.is_connecting)
        assert len(manager.chunks()) == 1
        assert not halves.node_of()
        await halves.delete_pod()
        await halves.until(lambda: not halves.is_allocated())
        manager.release()
        await halves.delete_claim()
        assert not manager.chunks()
        assert not manager.connections()
        await halves.stop("pools/first")


def updated(half: str, *, overlap: bool, waiting: bool, prepared: bool = True) -> Case:
    """Return a case: the process of a half is replaced.

    Args:
        half: "pools" or "node".
        overlap: whether the new process starts before the old one ends.
        waiting: whether a second pod waits for the fabric meanwhile.
        prepared: whether the first pod runs already. Otherwise it is only bound.
    """

    async def case(halves: Halves) -> None:
        await halves.start_pools()
        await halves.create_pod(MEMORY)
        node = await halves.bound()
        if prepared:
            assert not await halves.prepare()
        edits, claim, pod = halves.edits(node), halves.claim(), halves.pod()
        second = f"{halves.name}-second"
        if waiting:
            halves.hold(FabricCall.CREATE_CONNECTION)
            await halves.create_pod(MEMORY, second)
            await halves.until(halves.is_held)
        halves.write_memory(node)
        before = halves.hardware()
        process = "pools" if half == "pools" else node
        if not overlap:
            await halves.stop(f"{process}/first")
        await (halves.start_pools("second") if half == "pools" else halves.start_node(node, "second"))
        if overlap:
            await halves.stop(f"{process}/first")
        uid = "second" if half == "node" else "first"
        assert not await halves.prepare(uid=uid)
        assert halves.hardware() == before
        if waiting:
            halves.release()
        else:
            await halves.create_pod(MEMORY, second)
        await halves.bound(second)
        state = halves.fabric()
        assert len(state.objects) == 4
        assert state.count == 8  # two chunks and two connections, with a task each
        if prepared:
            assert halves.edits(node) == edits
        assert halves.pod() == pod
        assert halves.claim().allocation == claim.allocation
        assert not halves.lab.tainted()
        await halves.delete_pod(second)
        await halves.delete_claim(second)
        await end_pod(halves, node, uid=uid)

    return case


async def cleared_while_the_node_attaches(halves: Halves) -> None:
    """The pod is deleted while the node waits for a usable accelerator."""
    await start_waiting_on_the_node(halves)
    await halves.delete_pod()
    await halves.delete_claim()
    await halves.until(halves.is_empty)


async def node_replaced_while_it_attaches(halves: Halves) -> None:
    """The process of the node ends while it waits for a usable accelerator; the next one continues."""
    await start_waiting_on_the_node(halves)
    node = halves.nominated()
    await halves.stop(f"{node}/first")
    await halves.start_node(node, "second")
    assert not halves.node_of()
    halves.set_driver(has_driver=True)
    assert await halves.bound() == node
    assert halves.fabric().count == 2  # a connection with its task
    assert not await halves.prepare(uid="second")
    await end_pod(halves, node, "second")


async def start_waiting_on_the_node(halves: Halves) -> None:
    """Create a pod whose accelerator is attached, and not yet usable on the node."""
    await halves.start_pools()
    halves.set_driver(has_driver=False)
    await halves.create_pod(ACCELERATOR)
    await halves.until(halves.is_allocated)
    await halves.until(halves.is_noted)


async def end_pod(halves: Halves, node: str, uid: str = "first", *, prepared: bool = True) -> None:
    """End the pod, as its kubelet and its user do; wait until its device is detached."""
    if prepared:
        await halves.unprepare(halves.claim(), node, uid)
    await halves.delete_pod()
    await halves.delete_claim()
    await halves.until(halves.is_empty)


CASES: Final[Mapping[str, Case]] = {
    "an accelerator reaches its container": accelerator,
    "a failed port, and another device": failed_port,
    "cleared while a chunk is made": cleared_while(FabricCall.CREATE_CHUNK),
    "cleared while a connection is made": cleared_while(FabricCall.CREATE_CONNECTION),
    "cleared while a manager makes a connection": cleared_while_a_manager_connects,
    "pools half replaced": updated("pools", overlap=False, waiting=False),
    "pools half updated while a pod waits": updated("pools", overlap=True, waiting=True),
    "node half replaced while a pod waits": updated("node", overlap=False, waiting=True),
    "node half replaced while it attaches": node_replaced_while_it_attaches,
    "node half updated": updated("node", overlap=True, waiting=False),
    "node half replaced before it prepares": updated("node", overlap=False, waiting=False, prepared=False),
    # The last case with the only accelerator: kube-scheduler counts it as used for some seconds after the claim
    # is gone, and does not try a pod again at their end.
    "cleared while the node attaches": cleared_while_the_node_attaches,
}
