"""A real kube-apiserver does what every API server here does: the suite is right."""

import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.conformance.apiserver_suite import Api, ApiServerSuite
from tests.e2e.bed import Bed

pytestmark = pytest.mark.e2e


class TestRealApiServer(ApiServerSuite):
    @pytest.fixture
    async def api(self, real_control_plane: Bed) -> AsyncIterator[Api]:
        credentials = real_control_plane.credentials
        context = ssl.create_default_context(cafile=str(credentials.ca_file))
        async with aiohttp.ClientSession() as session:
            yield Api(real_control_plane.url, context, credentials.token("admin"), session)
