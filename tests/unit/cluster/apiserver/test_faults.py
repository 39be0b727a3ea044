"""Injected faults: wrong, late and missing answers."""

import asyncio

import aiohttp
import pytest

from dradriver.cluster.apiserver import ApiServer, Fault
from tests.conformance.apiserver.suite import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("code", "reason"),
    [(409, "Conflict"), (410, "Expired"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
async def test_a_rule_applies_to_count_requests(server: ApiServer, api: Api, code: int, reason: str) -> None:
    server.faults.add(Fault("create", "configmaps", code=code, count=2))
    answers = [await api.call("POST", MAPS, config_map("a")) for _ in range(3)]
    assert [each.status for each in answers] == [code, code, 201]
    assert answers[0].json["reason"] == reason


async def test_too_many_requests_has_a_retry_after_header(server: ApiServer, api: Api) -> None:
    server.faults.add(Fault(code=429, retry_after=3))
    answer = await api.call("GET", MAPS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")


async def test_a_request_with_a_lost_answer_was_executed(server: ApiServer, api: Api) -> None:
    server.faults.add(Fault("create", "configmaps", drop=True, applied=True))
    with pytest.raises(aiohttp.ClientError):
        await api.call("POST", MAPS, config_map("a"))
    assert (await api.call("GET", f"{MAPS}/a")).status == 200


async def test_a_dropped_request_was_not_executed(server: ApiServer, api: Api) -> None:
    server.faults.add(Fault("create", "configmaps", drop=True))
    with pytest.raises(aiohttp.ClientError):
        await api.call("POST", MAPS, config_map("a"))
    assert (await api.call("GET", f"{MAPS}/a")).status == 404


async def test_a_watch_is_cut_after_some_events(server: ApiServer, api: Api) -> None:
    await api.make(MAPS, config_map("a"))
    await api.make(MAPS, config_map("b"))
    server.faults.add(Fault("watch", "configmaps", after=1))
    with pytest.raises(aiohttp.ClientError):
        await api.watch(MAPS, 2)
    assert len(await api.watch(MAPS, 2)) == 2


async def test_a_watch_gets_a_410_event(server: ApiServer, api: Api) -> None:
    server.faults.add(Fault("watch", "configmaps", code=410))
    (event,) = await api.watch(MAPS, 1)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_delay_comes_before_the_answer(server: ApiServer, api: Api) -> None:
    rule = server.faults.add(Fault("get", "configmaps", code=500, delay=0.01))
    assert (await api.call("GET", f"{MAPS}/a")).status == 500
    assert rule.count == 0


async def test_a_request_is_carried_out_after_its_event(server: ApiServer, api: Api) -> None:
    may_run = asyncio.Event()
    rule = server.faults.add(Fault("create", "configmaps", until=may_run))
    call = asyncio.create_task(api.call("POST", MAPS, config_map("a")))
    async with asyncio.timeout(10):
        while rule.count:
            await asyncio.sleep(0.001)
    assert (await api.call("GET", f"{MAPS}/a")).status == 404
    may_run.set()
    assert (await call).status == 201
    assert (await api.call("GET", f"{MAPS}/a")).status == 200
