"""The answers that a kubelet gets on the two sockets."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dradriver.errors import UsageError
from dradriver.model.resource.claim import DeviceResult
from dradriver.model.resource.pool import Pool
from dradriver.node import plugin as plugin_module
from dradriver.node.errors import RegistrationError
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.plugin import Plugin
from dradriver.wire import dra_v1, dra_v1beta1, health_v1
from dradriver.wire.stubs import dra_v1_grpc, dra_v1beta1_grpc, health_v1_grpc
from tests.unit.node.plugin_world import FakePublisher, Node, dial, info, notify, prepare, request
from tests.unit.node.world import DRIVER, NODE, LampDriver, allocated


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def publisher(plugin: Plugin) -> FakePublisher:
    assert isinstance(plugin.parts.publisher, FakePublisher)
    return plugin.parts.publisher


async def test_get_info_names_type_driver_endpoint_and_versions_in_order(node: Node) -> None:
    async with node.running() as plugin:
        answer = await info(plugin)
        assert (answer.type, answer.name, answer.endpoint) == ("DRAPlugin", DRIVER, str(plugin.sockets.service))
        assert list(answer.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


async def test_nothing_is_published_before_the_kubelet_has_accepted_the_driver(node: Node) -> None:
    async with node.running() as plugin:
        await publisher(plugin).is_wanted.wait()
        assert not publisher(plugin).running.is_set()
        await notify(plugin)
        await plugin.parts.registration.wait(10)
        await publisher(plugin).running.wait()
        assert [pool.name for pool in publisher(plugin).wanted] == [NODE]


async def test_a_rejected_registration_is_reported_with_the_kubelets_message(node: Node) -> None:
    async with node.running() as plugin:
        await notify(plugin, "no such version")
        with pytest.raises(RegistrationError, match=r"rejected driver lamp.example.com: no such version"):
            await plugin.parts.registration.wait(0)


async def test_the_kubelets_last_decision_counts(node: Node) -> None:
    async with node.running() as plugin:
        await notify(plugin, "not yet")
        await notify(plugin)
        await plugin.parts.registration.wait(10)


async def test_a_registry_that_no_kubelet_watches_is_reported(node: Node) -> None:
    async with node.running() as plugin:
        with pytest.raises(RegistrationError, match=r"no kubelet has opened a socket in .*plugins_registry"):
            await plugin.parts.registration.wait(0)


async def test_the_log_names_the_likely_causes_of_a_missing_kubelet(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin_module, "_REGISTRATION_SECONDS", 0.0)
    async with node.running() as plugin:
        while "nothing is published until then" not in caplog.text:
            await asyncio.sleep(0)
        assert "is a kubelet with DRA running here" in caplog.text
        await notify(plugin)
        await publisher(plugin).running.wait()


async def test_prepare_and_unprepare(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        stub = dra_v1_grpc.DRAPluginStub(channel)
        response = await stub.NodePrepareResources(request(claim))
        (device,) = response.claims[claim.metadata.uid].devices
        assert (list(device.request_names), device.pool_name, device.device_name) == (
            ["request-0"],
            NODE,
            "lamp-0",
        )
        assert list(device.cdi_device_ids) == [f"{DRIVER}/claim={claim.metadata.uid}-0"]
        assert [row.record.name for row in plugin.prepared()] == ["claim"]
        node.api.delete(claim)
        unprepared = await stub.NodeUnprepareResources(
            dra_v1.NodeUnprepareResourcesRequest(claims=request(claim).claims)
        )
        assert unprepared.claims[claim.metadata.uid].error == ""
        assert plugin.prepared() == []
    assert node.hardware == {}


async def test_v1beta1_has_the_same_answer(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        stub = dra_v1beta1_grpc.DRAPluginStub(channel)
        old = dra_v1beta1.NodePrepareResourcesRequest(
            claims=[dra_v1beta1.Claim(namespace="default", name="claim", uid=claim.metadata.uid)]
        )
        beta = (await stub.NodePrepareResources(old)).claims[claim.metadata.uid].devices
        (newer,) = (await prepare(plugin, claim))[claim.metadata.uid].devices
        assert [list(device.cdi_device_ids) for device in beta] == [list(newer.cdi_device_ids)]


async def test_a_share_is_named_in_the_answer(node: Node) -> None:
    share = DeviceResult(request="r", driver=DRIVER, pool=NODE, device="lamp-0", share_id="share-1")
    claim = node.api.add(allocated("claim", share))
    async with node.running() as plugin:
        (device,) = (await prepare(plugin, claim))[claim.metadata.uid].devices
    assert device.share_id == "share-1"


async def test_one_bad_claim_does_not_fail_the_others(node: Node) -> None:
    good = node.api.add(allocated("good", "lamp-0"))
    gone = allocated("gone", "lamp-1")
    node.api.add(allocated("replaced", "lamp-2"))
    replaced = allocated("replaced", "lamp-2")
    unallocated = node.api.add(type(good)(metadata=allocated("unallocated").metadata))
    async with node.running() as plugin:
        answers = await prepare(plugin, good, gone, replaced, unallocated)
    errors = {uid: answer.error for uid, answer in answers.items()}
    assert errors[good.metadata.uid] == ""
    assert "does not exist" in errors[gone.metadata.uid]
    assert "was replaced by another one" in errors[replaced.metadata.uid]
    assert "is not allocated" in errors[unallocated.metadata.uid]


async def test_an_unexpected_exception_fails_that_claim_only(node: Node) -> None:
    good, bad = node.api.add(allocated("good", "lamp-0")), node.api.add(allocated("bad", "lamp-1"))
    node.api.failures["bad"] = RuntimeError("a defect")
    async with node.running() as plugin:
        answers = await prepare(plugin, good, bad)
        assert "internal error: RuntimeError" in answers[bad.metadata.uid].error
        assert answers[good.metadata.uid].error == ""
        assert plugin.metrics.registry.get_sample_value(
            "dradriver_node_background_errors_total", {"driver": DRIVER, "source": "prepare"}
        )


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ([dra_v1.Claim(namespace="default", name="claim")], "a UID is required"),
        (
            [dra_v1.Claim(uid="1", namespace="a", name="b"), dra_v1.Claim(uid="1", namespace="a", name="c")],
            "twice",
        ),
    ],
)
async def test_a_request_whose_claims_cannot_be_distinguished_is_rejected(
    node: Node, claims: list[dra_v1.Claim], message: str
) -> None:
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match=message) as caught:
            await dra_v1_grpc.DRAPluginStub(channel).NodePrepareResources(
                dra_v1.NodePrepareResourcesRequest(claims=claims)
            )
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (dra_v1.Claim(uid="../../etc", namespace="default", name="claim"), "must be a UID"),
        (dra_v1.Claim(uid="1", namespace="", name="claim"), "namespace '': must be the name"),
        (dra_v1.Claim(uid="1", namespace="default", name="a/b"), "name 'a/b': must be the name"),
    ],
)
async def test_a_malformed_claim_is_answered_with_the_field(
    node: Node, claim: dra_v1.Claim, message: str
) -> None:
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        response = await dra_v1_grpc.DRAPluginStub(channel).NodePrepareResources(
            dra_v1.NodePrepareResourcesRequest(claims=[claim])
        )
    assert message in response.claims[claim.uid].error


async def test_an_empty_request_gets_an_empty_answer(node: Node) -> None:
    async with node.running() as plugin:
        assert await prepare(plugin) == {}


async def test_the_probe_never_waits_behind_a_prepare(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    driver = LampDriver(node.hardware)
    driver.gate = asyncio.Event()
    async with node.running(driver) as plugin, dial(plugin.sockets.service) as channel:
        preparing = asyncio.create_task(prepare(plugin, claim))
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        driver.gate.set()
        await preparing


async def test_a_prepare_before_the_first_discovery_waits_for_it(node: Node) -> None:
    class Late(LampDriver):
        attempts = 0

        def discover(self) -> Sequence[Pool]:
            self.attempts += 1
            if self.attempts == 1:
                raise OSError("firmware is loading")
            return super().discover()

    claim = node.api.add(allocated("claim", "lamp-0"))
    driver = Late(node.hardware)
    async with node.running(driver) as plugin:
        preparing = asyncio.create_task(prepare(plugin, claim))
        while not driver.attempts:
            await asyncio.sleep(0.01)
        driver.rediscover()
        assert (await preparing)[claim.metadata.uid].error == ""


async def test_two_concurrent_instances_share_the_prepared_claims(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    rival = node.api.add(allocated("rival", "lamp-0"))
    old_uid, new_uid = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
    async with node.running(pod_uid=old_uid) as old, node.running(pod_uid=new_uid) as new:
        first = (await prepare(old, claim))[claim.metadata.uid]
        second = (await prepare(new, claim))[claim.metadata.uid]
        assert first == second
        refused = (await prepare(new, rival))[rival.metadata.uid].error
        assert "default/claim" in refused
        assert "default/rival" in refused


async def test_without_health_the_service_is_unimplemented(node: Node) -> None:
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        stream = health_v1_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
            health_v1.NodeWatchResourcesRequest()
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_run_ends_when_stop_is_set(node: Node) -> None:
    plugin, stop = node.plugin(), asyncio.Event()
    running = asyncio.create_task(plugin.run(stop))
    while not plugin.sockets.registrar.exists():
        await asyncio.sleep(0.01)
    stop.set()
    await running
    assert not plugin.sockets.registrar.exists()


async def test_a_claim_whose_device_a_vanished_claim_holds_is_prepared_soon(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rejection makes the plugin check early whether the other claim still exists."""
    monkeypatch.setattr("dradriver.node.claims.reconcile._MIN_PAUSE_SECONDS", 0.0)
    forced = node.api.add(allocated("forced", "lamp-0"))
    successor = allocated("successor", "lamp-0")
    async with node.running() as plugin:
        assert (await prepare(plugin, forced))[forced.metadata.uid].error == ""
        node.api.delete(forced)
        node.api.add(successor)
        assert "default/forced" in (await prepare(plugin, successor))[successor.metadata.uid].error
        while (await prepare(plugin, successor))[successor.metadata.uid].error:
            await asyncio.sleep(0.01)


async def test_a_second_instance_without_a_pod_uid_is_rejected_and_the_first_continues(node: Node) -> None:
    async with node.running() as plugin:
        with pytest.raises(UsageError, match=r"already running.*--pod-uid"):
            await node.plugin().start()
        assert (await info(plugin)).name == DRIVER
        assert await prepare(plugin) == {}


async def test_stale_sockets_of_a_crash_are_removed_at_start(node: Node) -> None:
    dead = Sockets.of(DRIVER, node.root / "plugins_registry", node.root / "plugins", "0" * 32)
    for path in (dead.registrar, dead.service):
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    async with node.running():
        assert not dead.registrar.exists()
        assert not dead.service.exists()


async def test_a_driver_with_an_invalid_name_is_rejected(node: Node) -> None:
    class Shouting(LampDriver):
        name = "LAMP"

    with pytest.raises(UsageError, match=r"class Shouting: .* 'LAMP' is not a DNS subdomain"):
        node.plugin(Shouting(node.hardware))


async def test_relative_folders_become_absolute_because_other_processes_get_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.root.mkdir(exist_ok=True)
    monkeypatch.chdir(node.root)
    async with Node(Path()).running() as plugin:
        assert (await info(plugin)).endpoint == str(node.root / "plugins" / DRIVER / "dra.sock")


async def test_the_metrics_count_calls_and_failures(node: Node) -> None:
    good, bad = node.api.add(allocated("good", "lamp-0", "lamp-1")), allocated("bad", "lamp-2")
    async with node.running() as plugin:
        await notify(plugin)
        await prepare(plugin, good, bad)

        def sample(name: str, **labels: str) -> float | None:
            return plugin.metrics.registry.get_sample_value(name, {"driver": DRIVER, **labels})

        assert sample("dradriver_node_registered") == 1
        assert sample("dradriver_node_prepared_devices") == 2
        assert sample("dradriver_node_requests_inflight", operation="prepare") == 0
        for result in ("ok", "error"):
            assert (
                sample("dradriver_node_request_duration_seconds_count", operation="prepare", result=result) == 1
            )
