"""The server of the extender: verbs, errors that kube-scheduler understands, probes, metrics and profiles."""

import asyncio
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from dradriver.cli.explanation.live import ask_extender
from dradriver.errors import DraError, UsageError
from dradriver.extender.serving import profiling
from dradriver.extender.serving.server import LARGEST_BODY, ExtenderServer
from dradriver.http_server.certificate import Certificate
from tests.unit.admission.certificates import make_pair
from tests.unit.extender.serving.fakes import (
    BIND,
    FILTER,
    PREEMPT,
    FakeProcess,
    FakeVerbs,
    KubeScheduler,
    serving,
)


class Bench:
    """A server, its client and its fake verbs."""

    def __init__(
        self, server: ExtenderServer, client: KubeScheduler, process: FakeProcess, verbs: FakeVerbs
    ) -> None:
        self.server, self.client, self.process, self.verbs = server, client, process, verbs


@pytest.fixture
async def bench(tasks_left: None) -> AsyncIterator[Bench]:
    verbs = FakeVerbs()
    process = FakeProcess(verbs)
    async with serving(process, health_host="127.0.0.1", health_port=0, profiling=True) as (server, client):
        yield Bench(server, client, process, verbs)


async def test_each_verb_answers_as_kube_scheduler_expects(bench: Bench) -> None:
    assert await bench.client.post("filter", FILTER) == (
        200,
        {
            "NodeNames": ["node-1"],
            "FailedAndUnresolvableNodes": {"node-2": "no device for default/pod"},
        },
    )
    scores = [{"Host": "node-1", "Score": 10}, {"Host": "node-2", "Score": 9}]
    assert await bench.client.post("prioritize", FILTER) == (200, scores)
    victims = {"NodeNameToMetaVictims": PREEMPT["NodeNameToMetaVictims"]}
    assert await bench.client.post("preempt", PREEMPT) == (200, victims)
    assert await bench.client.post("bind", BIND) == (200, {})
    assert [(each.pod_name, each.pod_uid, each.node) for each in bench.verbs.bound] == [("pod", "u", "node-1")]


async def test_errors_of_filter_and_bind_are_in_the_answer(bench: Bench) -> None:
    bench.verbs.error = DraError("claim default/c is being deleted")
    assert await bench.client.post("filter", FILTER) == (200, {"Error": "claim default/c is being deleted"})
    assert await bench.client.post("bind", BIND) == (200, {"Error": "claim default/c is being deleted"})


async def test_errors_of_verbs_without_an_error_field_have_a_status_and_are_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """kube-scheduler shows only the status of these answers."""
    bench.verbs.error = DraError("claim default/c is being deleted")
    for verb, body in (("prioritize", FILTER), ("preempt", PREEMPT)):
        assert await bench.client.post(verb, body) == (500, "claim default/c is being deleted\n")
        assert f"{verb}: claim default/c is being deleted" in caplog.text


async def test_a_request_with_whole_nodes_is_answered_with_the_remedy(bench: Bench) -> None:
    whole: dict[str, object] = {**FILTER, "Nodes": {"items": []}, "NodeNames": None}
    status, answer = await bench.client.post("filter", whole)
    assert status == 200
    assert "Set `nodeCacheCapable: true` in the extender's entry" in answer["Error"]
    status, text = await bench.client.post("preempt", {**PREEMPT, "NodeNameToMetaVictims": None})
    assert status == 500
    assert "Set `nodeCacheCapable: true`" in text


async def test_a_request_with_whole_nodes_of_a_large_cluster_is_answered_with_the_remedy(bench: Bench) -> None:
    whole: dict[str, object] = {"NodeNames": None, "Nodes": {"items": ["x" * LARGEST_BODY]}}
    expected = (
        "the request is larger than 4 MiB, so it contains whole nodes. Set `nodeCacheCapable: true` in the "
        "extender's entry of the KubeSchedulerConfiguration"
    )
    assert await bench.client.post("filter", {**FILTER, **whole}) == (200, {"Error": expected})
    for verb, body in (("prioritize", FILTER), ("preempt", PREEMPT)):
        assert await bench.client.post(verb, {**body, **whole}) == (500, f"{expected}\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the request is not valid: BindArgs: Input data was truncated"),
        (b"{}", "the request is not valid: BindArgs: Object missing required field `PodName`"),
        (b'{"PodName": 1}', "the request is not valid: BindArgs: PodName: Expected `str`, got `int`"),
        (b" " * (LARGEST_BODY + 1), "the request is larger than 4 MiB"),
    ],
    ids=["truncated", "empty", "wrong type", "too large"],
)
async def test_a_malformed_request_is_named_in_the_answer(bench: Bench, body: bytes, message: str) -> None:
    assert await bench.client.post("bind", body) == (200, {"Error": message})
    _, text = await bench.client.get("/metrics")
    assert 'dradriver_extender_requests_total{outcome="malformed",verb="bind"} 1.0\n' in text


async def test_a_pod_of_the_largest_size_is_accepted(bench: Bench) -> None:
    pod = {"metadata": {"name": "pod", "annotations": {"a": "x" * (3 * 1024 * 1024)}}}
    status, answer = await bench.client.post("filter", {**FILTER, "Pod": pod})
    assert (status, answer["NodeNames"]) == (200, ["node-1"])


async def test_a_defect_is_logged_and_its_traceback_is_not_sent(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.verbs.error = ZeroDivisionError("secret")
    _, answer = await bench.client.post("filter", FILTER)
    assert answer == {"Error": "internal error of `dradriver scheduler`, see its log"}
    assert (await bench.client.post("preempt", PREEMPT))[0] == 500
    assert "ZeroDivisionError: secret" in caplog.text


async def test_a_bind_ends_when_its_client_has_gone(bench: Bench) -> None:
    bench.verbs.held = asyncio.Event()
    call = asyncio.create_task(bench.client.post("bind", BIND))
    await bench.verbs.binding.wait()
    call.cancel()
    await bench.verbs.canceled.wait()
    assert bench.verbs.bound == []


async def test_a_client_that_goes_during_its_request_is_no_defect(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", bench.server.port)
    writer.write(b"POST /bind HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    while " _read\n" not in (await bench.client.get("/debug/tasks"))[1]:
        await asyncio.sleep(0.001)
    writer.close()
    await writer.wait_closed()
    line = 'dradriver_extender_requests_total{outcome="canceled",verb="bind"} 1.0\n'
    while line not in (await bench.client.get("/metrics"))[1]:
        await asyncio.sleep(0.001)
    assert caplog.text == ""


async def test_a_canceled_request_is_counted(bench: Bench) -> None:
    bench.verbs.held = asyncio.Event()
    call = asyncio.create_task(bench.client.post("bind", BIND))
    await bench.verbs.binding.wait()
    call.cancel()
    line = 'dradriver_extender_requests_total{outcome="canceled",verb="bind"} 1.0\n'
    while line not in (await bench.client.get("/metrics"))[1]:
        await asyncio.sleep(0.001)


async def test_a_second_allocator_is_a_check_of_its_own(bench: Bench) -> None:
    """The process stays ready: it serves all other pools, and a Service must lead to it."""
    assert await bench.client.get("/readyz/second-allocator") == (200, "ok\n")
    bench.verbs.second_allocator = "resource pool d/p: not served"
    assert await bench.client.get("/readyz/second-allocator") == (503, "resource pool d/p: not served\n")
    assert (await bench.client.get("/readyz"))[0] == 200


async def test_a_standby_rejects_verbs_with_its_reason(bench: Bench) -> None:
    await bench.process.calls.close(0)
    bench.process.readiness = "lease kube-system/dradriver is held by another"
    answer = {"Error": "lease kube-system/dradriver is held by another"}
    assert await bench.client.post("filter", FILTER) == (200, answer)
    assert await bench.client.post("bind", BIND) == (200, answer)


async def test_a_connection_serves_several_requests(bench: Bench) -> None:
    for _ in range(3):
        await bench.client.post("filter", FILTER)
    connector = bench.client.session.connector
    assert connector is not None
    assert sum(map(len, connector._conns.values())) == 1


async def test_probes_report_the_problem_of_the_process(bench: Bench) -> None:
    paths = ("/livez", "/readyz", "/readyz/standby")
    assert [await bench.client.get(path) for path in paths] == [(200, "ok\n")] * 3
    bench.process.problem, bench.process.readiness, bench.process.standby_readiness = "a", "b", "c"
    assert [await bench.client.get(path) for path in paths] == [(503, "a\n"), (503, "b\n"), (503, "c\n")]


async def test_a_process_that_is_ready_reports_what_operators_should_know(bench: Bench) -> None:
    bench.verbs.notice = "a pool is not served"
    assert await bench.client.get("/readyz") == (200, "ok\na pool is not served\n")
    bench.process.readiness = "b"
    assert await bench.client.get("/readyz") == (503, "b\n")
    await bench.process.calls.close(0)
    bench.process.readiness = ""
    assert await bench.client.get("/readyz") == (200, "ok\n")


async def test_the_second_port_has_probes_and_metrics_but_no_verbs(bench: Bench) -> None:
    second = KubeScheduler(bench.client.session, f"http://127.0.0.1:{bench.server.health_port}")
    assert await second.get("/readyz") == (200, "ok\n")
    assert (await second.get("/metrics"))[0] == 200
    assert (await second.post("bind", BIND))[0] == 404
    assert (await second.get("/debug/tasks"))[0] == 404


async def test_requests_are_counted_by_verb_and_outcome(bench: Bench) -> None:
    await bench.client.post("filter", FILTER)
    bench.verbs.error = DraError("no")
    await bench.client.post("filter", FILTER)
    _, text = await bench.client.get("/metrics")
    for line in ('requests_total{outcome="ok",verb="filter"} 1.0', 'request_seconds_count{verb="filter"} 2.0'):
        assert f"dradriver_extender_{line}\n" in text


def listening_ports() -> set[int]:
    """Return the ports on which this process listens."""
    ports: set[int] = set()
    for each in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # the folder itself is closed by now
            if stat.S_ISSOCK(os.fstat(each).st_mode):
                with socket.socket(fileno=os.dup(each)) as opened:
                    if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        ports.add(opened.getsockname()[1])
    return ports


async def test_a_used_port_is_named_and_nothing_stays_open(bench: Bench) -> None:
    taken, before = bench.server.port, listening_ports()
    assert {taken, bench.server.health_port} <= before
    second = ExtenderServer(bench.process, host="127.0.0.1", health_host="127.0.0.1", health_port=taken)
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{taken}: another process listens on it"):
        await second.start()
    assert second.port, "it listened on its first port"
    assert listening_ports() == before


async def test_tasks_are_shown_with_what_they_wait_for(bench: Bench) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait(), name="a task to show")
    await asyncio.sleep(0)
    status, text = await bench.client.get("/debug/tasks")
    task.cancel()
    assert status == 200
    shown = text[text.index("a task to show\n") :].splitlines()
    assert shown[1].endswith("test_tasks_are_shown_with_what_they_wait_for.<locals>.wait")
    assert shown[2].endswith(" Event.wait")


async def test_the_event_loop_is_profiled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(_seconds: float) -> None:
        begun.set()
        await go.wait()

    with monkeypatch.context() as patch:
        patch.setattr(profiling, "asyncio", Mock(sleep=wait))
        first = asyncio.create_task(bench.client.get("/debug/profile?seconds=0.05"))
        await begun.wait()
        assert (await bench.client.get("/debug/profile?seconds=0.05"))[0] == 409
        go.set()
        assert (await first)[0] == 200
    status, text = await bench.client.get("/debug/profile?seconds=0.05")
    assert status == 200
    assert "function calls" in text
    assert (await bench.client.get("/debug/profile?seconds=1e9"))[0] == 400
    assert (await bench.client.get("/debug/profile?seconds=x"))[0] == 400


async def test_nothing_is_profiled_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serving(FakeProcess(FakeVerbs())) as (server, client):
            assert (await client.get("/debug/tasks"))[0] == 404
            assert server.health_port == 0


async def test_the_state_of_a_pod_is_served_to_operators(bench: Bench) -> None:
    status, text = await bench.client.get("/explain?pod=default/a")
    assert (status, json.loads(text)) == (
        200,
        {"pod": "default/a", "state": "refused", "message": "no node suits it: cannot allocate all claims"},
    )
    assert await bench.client.get("/explain?pod=a") == (400, "pod: must be NAMESPACE/NAME\n")
    await bench.process.calls.close(0)
    bench.process.readiness = "lease a/b is held by c"
    assert await bench.client.get("/explain?pod=default/a") == (503, "lease a/b is held by c\n")


async def test_explain_asks_the_running_process(bench: Bench) -> None:
    url = f"http://127.0.0.1:{bench.server.port}/"
    assert await asyncio.to_thread(ask_extender, url, "default/a") == (
        "pod default/a: refused: no node suits it: cannot allocate all claims"
    )
    bench.verbs.error = DraError("this process has not read the cluster yet")
    with pytest.raises(DraError, match="has not read the cluster yet"):
        await asyncio.to_thread(ask_extender, url, "default/a")
    with pytest.raises(UsageError, match="must be http://HOST:PORT"):
        ask_extender("ftp://127.0.0.1", "default/a")
    with pytest.raises(
        UsageError, match="--extender https://a:1: https needs --ca-file, --cert-file, --key-file"
    ):
        ask_extender("https://a:1", "default/a")
    with pytest.raises(DraError, match="No such file"):
        ask_extender("https://a:1", "default/a", ca_file="no", cert_file="no", key_file="no")
    await bench.server.stop()
    with pytest.raises(DraError, match="refused"):
        await asyncio.to_thread(ask_extender, url, "default/a")


async def test_explain_asks_a_process_with_mutual_tls(tmp_path: Path, tasks_left: None) -> None:
    own, peer = make_pair("extender"), make_pair("operator")
    (folder := tmp_path / "peer").mkdir()
    (ca_file, own_key), (cert_file, key_file) = own.write(tmp_path), peer.write(folder)
    certificate = Certificate(ca_file, own_key, cert_file)
    async with serving(FakeProcess(FakeVerbs()), context=certificate.context) as (server, _):
        ask = partial(ask_extender, f"https://127.0.0.1:{server.port}", "default/a", ca_file=str(ca_file))
        answer = await asyncio.to_thread(ask, cert_file=str(cert_file), key_file=str(key_file))
        assert answer == "pod default/a: refused: no node suits it: cannot allocate all claims"
        with pytest.raises(DraError, match=f"--extender https://127.0.0.1:{server.port}: "):
            await asyncio.to_thread(ask, cert_file=str(ca_file), key_file=str(own_key))
