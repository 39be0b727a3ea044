"""Pod disruption budgets are stored, and only their status subresource changes what they allow."""

from typing import Any

import pytest

from tests.conformance.apiserver.suite import Api

PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def budget(**spec: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "50%"} | spec
    return {"metadata": {"name": "web"}, "spec": spec, "status": {"disruptionsAllowed": 7}}


async def test_only_the_status_subresource_writes_the_status(api: Api) -> None:
    created = (await api.call("POST", PATH, budget())).json
    assert created["status"]["disruptionsAllowed"] == 0
    status = {
        "metadata": {"name": "web"},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"web-1": None}},
    }
    written = await api.call("PATCH", f"{PATH}/web/status", status, content_type="application/merge-patch+json")
    assert written.json["status"]["disruptionsAllowed"] == 2
    assert written.json["spec"] == created["spec"]
    assert written.json["metadata"]["generation"] == 1
    rows = (await api.call("GET", PATH, accept=TABLE)).json["rows"]
    assert rows[0]["cells"][:4] == ["web", "N/A", "50%", 2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (budget(minAvailable=1), "minAvailable and maxUnavailable cannot be both set"),
        (
            budget(selector={"matchExpressions": [{"key": "app", "operator": "Equals", "values": ["web"]}]}),
            "spec.selector.matchExpressions[0].operator",
        ),
    ],
)
async def test_a_budget_that_breaks_a_rule_is_rejected(api: Api, body: dict[str, Any], field: str) -> None:
    answer = await api.call("POST", PATH, body)
    assert answer.status == 422
    assert field in answer.json["message"]


async def test_a_negative_number_of_disruptions_is_rejected(api: Api) -> None:
    await api.call("POST", PATH, budget())
    status = {"status": {"disruptionsAllowed": -1}}
    answer = await api.call("PATCH", f"{PATH}/web/status", status, content_type="application/merge-patch+json")
    assert answer.status == 422
    assert "status.disruptionsAllowed" in answer.json["message"]
