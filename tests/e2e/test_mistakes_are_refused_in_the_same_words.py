"""What a user reads after a mistake is the same from the embedded API server and from kube-apiserver."""

import json
from typing import Any

import pytest
import yaml

from tests.conformance.apiserver_suite import Api
from tests.e2e.mistakes import CLAIMS, CLASSES, OWN_WORDS, PODS, QUOTAS, SLICES, SOUND_PODS

DRA = "/apis/resource.k8s.io/v1"


async def send(api: Api, path: str, manifest: str) -> dict[str, Any]:
    """What comes back of a create as kubectl sends it; nothing is stored."""
    body = json.dumps(yaml.safe_load(manifest)).encode()
    params = {"fieldValidation": "Strict", "dryRun": "All", "fieldManager": "kubectl"}
    answer = await api.call("POST", path, body, params=params)
    shown = answer.json
    kept = ("reason", "code", "message", "details") if shown["kind"] == "Status" else ("spec",)
    return {"http": answer.status, **{key: shown.get(key) for key in kept}}


def without_words(refusal: dict[str, Any]) -> dict[str, Any]:
    """A refusal's code, reason and fields."""
    causes = [(cause["reason"], cause["field"]) for cause in refusal["details"]["causes"]]
    return {**refusal, "message": "", "details": {**refusal["details"], "causes": causes}}


async def compare(embedded: Api, real: Api, path: str, manifest: str, *, own_words: bool) -> None:
    ours, theirs = await send(embedded, path, manifest), await send(real, path, manifest)
    if own_words:
        assert ours["message"] != theirs["message"], "no difference any more"
        ours, theirs = without_words(ours), without_words(theirs)
    assert ours == theirs


@pytest.mark.parametrize("mistake", CLAIMS)
async def test_claims(real: Api, embedded: Api, mistake: str) -> None:
    path = f"{DRA}/namespaces/default/resourceclaims"
    await compare(embedded, real, path, CLAIMS[mistake], own_words=mistake in OWN_WORDS)


@pytest.mark.parametrize("mistake", CLASSES)
async def test_classes(real: Api, embedded: Api, mistake: str) -> None:
    await compare(embedded, real, f"{DRA}/deviceclasses", CLASSES[mistake], own_words=mistake in OWN_WORDS)


@pytest.mark.parametrize("mistake", SLICES)
async def test_slices(real: Api, embedded: Api, mistake: str) -> None:
    await compare(embedded, real, f"{DRA}/resourceslices", SLICES[mistake], own_words=mistake in OWN_WORDS)


@pytest.fixture
async def accounted(real: Api) -> Api:
    """The real server, with the account that pods need; no controller runs that would make it."""
    await real.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    return real


@pytest.mark.parametrize("mistake", PODS)
async def test_pods(accounted: Api, embedded: Api, mistake: str) -> None:
    path = "/api/v1/namespaces/default/pods"
    await compare(embedded, accounted, path, PODS[mistake], own_words=False)


@pytest.mark.parametrize("name", SOUND_PODS)
async def test_resources_of_sound_pods_come_back_alike(accounted: Api, embedded: Api, name: str) -> None:
    stored = [
        (await send(api, "/api/v1/namespaces/default/pods", SOUND_PODS[name]))["spec"]["containers"][0][
            "resources"
        ]
        for api in (accounted, embedded)
    ]
    assert stored[0] == stored[1]


@pytest.mark.parametrize("mistake", QUOTAS)
async def test_quotas(real: Api, embedded: Api, mistake: str) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    await compare(embedded, real, path, QUOTAS[mistake], own_words=False)
