"""What a user reads after a mistake is the same from the embedded API server and from kube-apiserver."""

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from dradriver.cluster.apiserver import ApiServer
from dradriver.cel import CompileError, compile_selector
from tests.conformance.apiserver_suite import Answer, Api
from tests.e2e.bed import Bed
from tests.e2e.mistakes import CLAIMS, CLASSES, SLICES


def cel_problem(expression: str) -> str | None:
    """Why an expression is refused, as the embedded cluster has it."""
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return None


DRA = "/apis/resource.k8s.io/v1"


@pytest.fixture
async def real(real_control_plane: Bed) -> AsyncIterator[Api]:
    credentials = real_control_plane.credentials
    context = ssl.create_default_context(cafile=str(credentials.ca_file))
    async with aiohttp.ClientSession() as session:
        yield Api(real_control_plane.url, context, credentials.token("admin"), session)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Api]:
    server = ApiServer(tmp_path / "data", cel_check=cel_problem)
    await server.start()
    context = ssl.create_default_context(cafile=str(server.ca_file))
    token = server.kubeconfig()["users"][0]["user"]["token"]
    async with aiohttp.ClientSession() as session:
        yield Api(server.url, context, token, session)
    await server.stop()


async def send(api: Api, path: str, manifest: str) -> dict[str, Any]:
    """What comes back of a create as kubectl sends it; nothing is stored."""
    body = json.dumps(yaml.safe_load(manifest)).encode()
    params = {"fieldValidation": "Strict", "dryRun": "All", "fieldManager": "kubectl"}
    answer: Answer = await api.call("POST", path, body, params=params)
    shown = answer.json
    kept = ("status", "reason", "code", "message", "details") if shown["kind"] == "Status" else ("spec",)
    return {"http": answer.status, **{key: shown.get(key) for key in kept}}


@pytest.mark.parametrize("mistake", CLAIMS)
async def test_claims(real: Api, embedded: Api, mistake: str) -> None:
    path = f"{DRA}/namespaces/default/resourceclaims"
    assert await send(embedded, path, CLAIMS[mistake]) == await send(real, path, CLAIMS[mistake])


@pytest.mark.parametrize("mistake", CLASSES)
async def test_classes(real: Api, embedded: Api, mistake: str) -> None:
    path = f"{DRA}/deviceclasses"
    assert await send(embedded, path, CLASSES[mistake]) == await send(real, path, CLASSES[mistake])


@pytest.mark.parametrize("mistake", SLICES)
async def test_slices(real: Api, embedded: Api, mistake: str) -> None:
    path = f"{DRA}/resourceslices"
    assert await send(embedded, path, SLICES[mistake]) == await send(real, path, SLICES[mistake])
