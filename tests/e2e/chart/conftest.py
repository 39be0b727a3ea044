"""Credentials of the driver's pod, for modules with a fixture `chart` and NAMESPACE, ACCOUNT and NODE."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.apiserver.suite import Api
from tests.e2e.chart.helm import Helm
from tests.e2e.chart.pod_tokens import pod_token
from tests.e2e.chart.rights import RecordingTransport, recording


@pytest.fixture
async def token(request: pytest.FixtureRequest, chart: Helm, real: Api) -> str:
    """Return the token of the driver's pod."""
    module = request.module
    return await pod_token(real, module.NAMESPACE, module.ACCOUNT, module.NODE)


@pytest.fixture
async def recorded(chart: Helm, token: str, tmp_path: Path) -> AsyncIterator[RecordingTransport]:
    """Return a transport that sends requests as the pod of the driver."""
    async with recording(chart, token, tmp_path) as made:
        yield made
