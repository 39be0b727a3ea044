"""A client that leaves before the answer is no error of the server."""

import logging

import aiohttp
import pytest
from aiohttp import web

from tests.conformance.apiserver.suite import Api


async def test_a_watch_whose_client_has_left_logs_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare = web.StreamResponse.prepare
    left = []

    async def leave_first(response: web.StreamResponse, request: web.BaseRequest) -> object:
        if request.query.get("watch") and request.transport is not None:
            left.append(request.path)
            request.transport.close()
        return await prepare(response, request)

    monkeypatch.setattr(web.StreamResponse, "prepare", leave_first)
    caplog.set_level(logging.ERROR)
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.call("GET", "/api/v1/pods?watch=true")
    assert (await api.call("GET", "/api/v1/pods")).status == 200
    assert left
    assert not caplog.records
