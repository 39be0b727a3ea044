"""The embedded API server passes the API server suite."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from dradriver.cluster.apiserver import ApiServer
from tests.conformance.apiserver.custom_kinds import CustomKindsSuite
from tests.conformance.apiserver.suite import Api, ApiServerSuite


class TestEmbeddedApiServer(ApiServerSuite, CustomKindsSuite):
    @pytest.fixture
    async def api(self, tmp_path: Path) -> AsyncIterator[Api]:
        server = ApiServer(tmp_path / "data")
        await server.start()
        context = ssl.create_default_context(cafile=str(server.ca_file))
        token = server.kubeconfig()["users"][0]["user"]["token"]
        async with aiohttp.ClientSession() as session:
            yield Api(server.url, context, token, session)
        await server.stop()
