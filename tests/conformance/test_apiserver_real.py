"""A real kube-apiserver does what every API server here does: the suite is right."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.apiserver_suite import Api, ApiServerSuite
from tests.e2e import servers
from tests.e2e.bed import Bed

pytestmark = pytest.mark.e2e


class TestRealApiServer(ApiServerSuite):
    @pytest.fixture
    async def api(self, real_control_plane: Bed) -> AsyncIterator[Api]:
        async with servers.real(real_control_plane) as api:
            yield api
