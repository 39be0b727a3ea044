"""ResourceQuota on the embedded server. `tests/e2e` runs the same cases on a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.apiserver.quota_scenarios import CLASS_QUOTA, EXPLICIT_QUOTA, STORIES, QuotaLab
from tests.conformance.apiserver.suite import MERGE, Api
from tests.unit.cluster.apiserver.conftest import Connect, StartServer


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_quotas_are_counted(api: Api, story: Callable[[QuotaLab], Awaitable[Any]]) -> None:
    await story(QuotaLab(api, "quota"))


async def test_the_rejection_names_the_used_and_the_limited_amount(api: Api) -> None:
    lab = QuotaLab(api, "quota")
    await lab.begin(explicit="3")
    await lab.pod("two", gpu=2)
    answer = await lab.pod("more", gpu=2)
    assert answer.json["message"] == (
        f'pods "more" is forbidden: exceeded quota: gpu, requested: {EXPLICIT_QUOTA}=2, '
        f"used: {EXPLICIT_QUOTA}=2, limited: {EXPLICIT_QUOTA}=3"
    )


async def test_a_claim_that_loses_its_exemption_must_fit_the_quota(api: Api) -> None:
    lab = QuotaLab(api, "quota")
    await lab.begin(explicit="1")
    pod = (await lab.pod("pod", gpu=1)).json
    await lab.claim("claim", owner=pod)
    plain = {"metadata": {"annotations": None}}
    answer = await api.call("PATCH", f"{lab.claims}/claim", plain, content_type=MERGE)
    assert answer.status == 403


async def test_with_the_gate_off_claims_count_only_by_their_class(
    start_server: StartServer, connect: Connect
) -> None:
    lab = QuotaLab(connect(await start_server(feature_gates={"DRAExtendedResource": False})), "quota")
    await lab.begin(explicit="1", devices="2")
    assert (await lab.claim("claim")).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "0", CLASS_QUOTA: "1"})


async def test_two_concurrent_creates_cannot_use_the_same_last_device(api: Api) -> None:
    lab = QuotaLab(api, "quota")
    await lab.begin(explicit="1")
    answers = await asyncio.gather(*(lab.pod(f"pod-{n}", gpu=1) for n in range(8)))
    assert sorted(answer.status for answer in answers) == [201] + [403] * 7


async def test_quotas_with_scopes_are_rejected(api: Api) -> None:
    body = {"metadata": {"name": "scoped"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
    answer = await api.call("POST", "/api/v1/namespaces/default/resourcequotas", body)
    assert answer.status == 422
    assert "spec.scopes" in answer.json["message"]


async def test_kubectl_prints_the_usage(api: Api) -> None:
    lab = QuotaLab(api, "quota")
    await lab.begin(explicit="3", **{"limits.cpu": "4"})
    table = (
        await api.call(
            "GET", f"{lab.core}/resourcequotas", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
        )
    ).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Request", "Limit", "Age"]
    assert table["rows"][0]["cells"][:3] == ["gpu", f"{EXPLICIT_QUOTA}: 0/3", "limits.cpu: 0/4"]
