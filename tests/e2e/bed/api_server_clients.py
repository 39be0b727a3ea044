"""Clients of both API servers, in the form of the conformance suite's client."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from dradriver.cluster.apiserver import ApiServer
from dradriver.cluster.apiserver.access import identity
from dradriver.cluster.cel_check import check_selector
from tests.conformance.apiserver.suite import DRA, Api, Json
from tests.e2e.bed.bed import Bed


@asynccontextmanager
async def real(bed: Bed, user: str = "admin") -> AsyncIterator[Api]:
    """Return a client of the bed's kube-apiserver."""
    context = ssl.create_default_context(cafile=str(bed.credentials.ca_file))
    async with aiohttp.ClientSession() as session:
        yield Api(bed.url, context, bed.credentials.token(user), session)


def token(folder: Path, user: str) -> str:
    """Return the token of a user of the embedded server with its state in a folder."""
    return identity.Tokens((folder / "token.key").read_bytes()).token(user)


@asynccontextmanager
async def embedded(
    folder: Path, gates: Mapping[str, bool] | None = None, user: str = "admin"
) -> AsyncIterator[Api]:
    """Start an embedded API server and return a client of it."""
    server = ApiServer(folder, cel_check=check_selector, feature_gates=gates)
    await server.start()
    context = ssl.create_default_context(cafile=str(server.ca_file))
    token = server.kubeconfig(user)["users"][0]["user"]["token"]
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(server.url, context, token, session)
    finally:
        await server.stop()


async def published(api: Api, driver: str, devices: int) -> list[Json]:
    """Wait until the slices of a driver have a number of devices; return the slices."""
    async with asyncio.timeout(60):
        while True:
            path, fields = f"{DRA}/resourceslices", f"spec.driver={driver}"
            answer = await api.call("GET", path, params={"fieldSelector": fields})
            items = list(answer.json["items"])
            if sum(len(item["spec"].get("devices", [])) for item in items) == devices:
                return items
            await asyncio.sleep(0.02)
