"""Serve grpc.health.v1 for liveness probes: the event loop answers, independent of claims in progress."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from dradriver.node.kubelet.server import CallError, Method, methods_of

__all__ = ["Probe"]

_SERVICES: Final = ("", "liveness")
"""The names under which the status is served; the probes of other DRA drivers use `liveness`."""

_SERVING, _NOT_SERVING, _UNKNOWN = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVICE_UNKNOWN,
)


class Probe:
    """Reports whether the plugin serves the kubelet."""

    def __init__(self) -> None:
        self._status = _NOT_SERVING
        self._changed = asyncio.Event()

    def methods(self) -> dict[str, Method]:
        """Return the methods for the plugin's socket."""
        return methods_of(health_pb2.DESCRIPTOR.services_by_name["Health"], self)

    def set_serving(self) -> None:
        """Report SERVING from now on."""
        self._set_status(_SERVING)

    def set_not_serving(self) -> None:
        """Report NOT_SERVING, because the plugin is about to stop."""
        self._set_status(_NOT_SERVING)

    async def Check(self, request: Any) -> Any:  # noqa: N802, ANN401 - generated messages
        """Return the current status."""
        if request.service not in _SERVICES:
            raise CallError(grpc.StatusCode.NOT_FOUND, f"service {request.service!r} does not exist")
        return health_pb2.HealthCheckResponse(status=self._status)

    async def List(self, request: Any) -> Any:  # noqa: N802, ANN401, ARG002 - generated messages
        """Return the current status of each service."""
        answer = health_pb2.HealthListResponse()
        for service in _SERVICES:
            answer.statuses[service].status = self._status
        return answer

    async def Watch(self, request: Any) -> AsyncIterator[Any]:  # noqa: N802, ANN401 - generated messages
        """Yield the current status, and each later change."""
        if request.service not in _SERVICES:
            yield health_pb2.HealthCheckResponse(status=_UNKNOWN)
            await asyncio.Event().wait()  # the protocol forbids an end: the service may become known later
        while True:
            changed = self._changed
            yield health_pb2.HealthCheckResponse(status=self._status)
            await changed.wait()

    def _set_status(self, status: int) -> None:
        if status != self._status:
            self._status = status
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
