"""The message after an error in a manifest is the same from the embedded API server and from kube-apiserver."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.conformance.apiserver.suite import Api
from tests.e2e.api_server.invalid_manifests import (
    CLAIMS,
    CLASSES,
    DIFFERENT_MESSAGES,
    PODS,
    QUOTAS,
    SLICES,
    VALID_PODS,
)

DRA = "/apis/resource.k8s.io/v1"


async def send(api: Api, path: str, manifest: str) -> dict[str, Any]:
    """Send a create as kubectl does, as a dry run; return the answer."""
    body = json.dumps(yaml.safe_load(manifest)).encode()
    params = {"fieldValidation": "Strict", "dryRun": "All", "fieldManager": "kubectl"}
    answer = await api.call("POST", path, body, params=params)
    shown = answer.json
    kept = ("reason", "code", "message", "details") if shown["kind"] == "Status" else ("spec",)
    return {"http": answer.status, **{key: shown.get(key) for key in kept}}


def without_messages(refusal: dict[str, Any]) -> dict[str, Any]:
    """Return a refusal's code, reason and fields."""
    causes = [(cause["reason"], cause["field"]) for cause in refusal["details"]["causes"]]
    return {**refusal, "message": "", "details": {**refusal["details"], "causes": causes}}


async def compare(embedded: Api, real: Api, path: str, manifests: Mapping[str, str], name: str) -> None:
    ours, theirs = [await send(api, path, manifests[name]) for api in (embedded, real)]
    if name in DIFFERENT_MESSAGES:
        assert ours["message"] != theirs["message"], "the messages are equal now"
        ours, theirs = without_messages(ours), without_messages(theirs)
    assert ours == theirs


@pytest.mark.parametrize("name", CLAIMS)
async def test_claims(real: Api, embedded: Api, name: str) -> None:
    path = f"{DRA}/namespaces/default/resourceclaims"
    await compare(embedded, real, path, CLAIMS, name)


@pytest.mark.parametrize("name", CLASSES)
async def test_classes(real: Api, embedded: Api, name: str) -> None:
    await compare(embedded, real, f"{DRA}/deviceclasses", CLASSES, name)


@pytest.mark.parametrize("name", SLICES)
async def test_slices(real: Api, embedded: Api, name: str) -> None:
    await compare(embedded, real, f"{DRA}/resourceslices", SLICES, name)


@pytest.fixture
async def real_with_account(real: Api) -> Api:
    """Return the real server with the account that pods need; no controller creates it here."""
    await real.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    return real


@pytest.mark.parametrize("name", PODS)
async def test_pods(real_with_account: Api, embedded: Api, name: str) -> None:
    path = "/api/v1/namespaces/default/pods"
    await compare(embedded, real_with_account, path, PODS, name)


@pytest.mark.parametrize("name", VALID_PODS)
async def test_resources_of_valid_pods_are_returned_alike(
    real_with_account: Api, embedded: Api, name: str
) -> None:
    stored = [
        (await send(api, "/api/v1/namespaces/default/pods", VALID_PODS[name]))["spec"]["containers"][0][
            "resources"
        ]
        for api in (real_with_account, embedded)
    ]
    assert stored[0] == stored[1]


@pytest.mark.parametrize("name", QUOTAS)
async def test_quotas(real: Api, embedded: Api, name: str) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    await compare(embedded, real, path, QUOTAS, name)
