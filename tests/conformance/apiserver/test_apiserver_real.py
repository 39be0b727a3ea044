"""A real kube-apiserver passes the API server suite, so the suite is correct."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.apiserver.custom_kinds import CustomKindsSuite
from tests.conformance.apiserver.suite import Api, ApiServerSuite
from tests.e2e.bed import api_server_clients
from tests.e2e.bed.bed import Bed

pytestmark = pytest.mark.e2e


class TestRealApiServer(ApiServerSuite, CustomKindsSuite):
    @pytest.fixture
    async def api(self, real_control_plane: Bed) -> AsyncIterator[Api]:
        async with api_server_clients.real(real_control_plane) as api:
            yield api
