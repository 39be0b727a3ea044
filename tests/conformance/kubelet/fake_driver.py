"""A driver for kubelet tests: gRPC servers on the wire API, without code of the SDK or the kubelet."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from dradriver.wire import dra_v1, dra_v1beta1, health_v1, health_v1alpha1, registration_v1
from dradriver.wire.stubs import (
    dra_v1_grpc,
    dra_v1beta1_grpc,
    health_v1_grpc,
    health_v1alpha1_grpc,
    registration_v1_grpc,
)

V1 = ("v1.DRAPlugin",)


@dataclass
class FakeDriver:
    """One instance of a driver; every call is recorded, every answer can be changed.

    Attributes:
        name: the driver's name.
        registry, data, cdi: the kubelet's folders.
        versions: the versions that it offers at registration.
        instance: distinguishes the sockets of two instances.
        prepares, unprepares: the claim names of each call, in order.
        statuses: the kubelet's notifications of the registration.
        errors: an error by claim name, for prepare.
        unprepare_errors: the same for unprepare.
        skipped: claim names that answers omit.
        hold, unprepare_hold: prepare or unprepare waits while this event is not set.
        device_edits: containerEdits of each claim's device.
    """

    name: str
    registry: Path
    data: Path
    cdi: Path
    versions: Sequence[str] = V1
    instance: str = "a"
    plugin_type: str = "DRAPlugin"
    endpoint: str | None = None
    prepares: list[list[str]] = field(default_factory=list)
    unprepares: list[list[str]] = field(default_factory=list)
    statuses: "asyncio.Queue[registration_v1.RegistrationStatus]" = field(default_factory=asyncio.Queue)
    errors: dict[str, str] = field(default_factory=dict)
    unprepare_errors: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    unprepare_hold: asyncio.Event = field(default_factory=asyncio.Event)
    device_edits: dict[str, Any] = field(default_factory=dict)
    requests: Sequence[str] = ("r0",)
    health: "asyncio.Queue[health_v1.NodeWatchResourcesResponse]" = field(default_factory=asyncio.Queue)
    health_supported: bool = True
    health_calls: int = 0
    _servers: list[grpc.aio.Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hold.set()
        self.unprepare_hold.set()

    @property
    def socket(self) -> Path:
        """Return the path of the DRAPlugin socket."""
        return self.data / f"{self.instance}.sock"

    @property
    def registration_socket(self) -> Path:
        """Return the path of the registration socket."""
        return self.registry / f"{self.name}-{self.instance}.sock"

    async def __aenter__(self) -> "FakeDriver":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve both sockets, the registration last."""
        self.data.mkdir(parents=True, exist_ok=True)
        await self.serve()
        registration = grpc.aio.server()
        registration_v1_grpc.add_RegistrationServicer_to_server(_Registration(self), registration)
        await self._listen(registration, self.registration_socket)

    async def serve(self) -> None:
        """Serve the DRAPlugin socket without registration."""
        server = grpc.aio.server()
        dra_v1_grpc.add_DRAPluginServicer_to_server(_Plugin(self, dra_v1), server)
        dra_v1beta1_grpc.add_DRAPluginServicer_to_server(_Plugin(self, dra_v1beta1), server)
        health_v1_grpc.add_DRAResourceHealthServicer_to_server(_Health(self), server)
        health_v1alpha1_grpc.add_DRAResourceHealthServicer_to_server(_OldHealth(self), server)
        await self._listen(server, self.socket)

    async def _listen(self, server: grpc.aio.Server, path: Path) -> None:
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    async def drop(self) -> None:
        """Stop the DRAPlugin socket as a crash does; the registration socket still answers."""
        await self._servers.pop(0).stop(None)
        self.socket.unlink(missing_ok=True)

    async def stop(self) -> None:
        """Stop as a graceful driver does: remove the sockets."""
        self.registration_socket.unlink(missing_ok=True)
        await asyncio.gather(*(server.stop(None) for server in self._servers))
        self._servers.clear()
        self.socket.unlink(missing_ok=True)

    def clear_failures(self) -> None:
        """Answer every call without an error from now on."""
        for each in (self.errors, self.unprepare_errors, self.skipped):
            each.clear()
        self.hold.set()
        self.unprepare_hold.set()

    async def registered(self) -> registration_v1.RegistrationStatus:
        """Return the kubelet's next notification of the registration."""
        async with asyncio.timeout(20):
            return await self.statuses.get()

    def write_spec(self, claim: Any) -> list[str]:
        """Write a CDI spec for the claim; return the qualified names of its devices by request."""
        devices = []
        for request in self.requests:
            env = [f"CLAIM_{request.upper()}={claim.name}", f"DRIVER={self.name}"]
            edits = {"env": env, **self.device_edits}
            devices.append({"name": f"{claim.uid}-{request}", "containerEdits": edits})
        kind = f"{self.name}/claim"
        spec = {"cdiVersion": "0.5.0", "kind": kind, "devices": devices}
        self.cdi.mkdir(parents=True, exist_ok=True)
        path = self.cdi / f"{self.name}-{claim.uid}.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(spec))
        temporary.rename(path)
        return [f"{kind}={device['name']}" for device in devices]

    def remove_spec(self, uid: str) -> None:
        """Remove the file of `write_spec`."""
        (self.cdi / f"{self.name}-{uid}.json").unlink(missing_ok=True)


class _Registration(registration_v1_grpc.RegistrationServicer):
    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver

    async def GetInfo(self, request: Any, context: Any) -> registration_v1.PluginInfo:  # noqa: N802
        endpoint = self.driver.endpoint
        return registration_v1.PluginInfo(
            type=self.driver.plugin_type,
            name=self.driver.name,
            endpoint=str(self.driver.socket) if endpoint is None else endpoint,
            supported_versions=list(self.driver.versions),
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.statuses.put_nowait(request)
        return registration_v1.RegistrationStatusResponse()


class _Plugin:
    def __init__(self, driver: FakeDriver, messages: Any) -> None:
        self.driver = driver
        self.messages = messages

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        driver, messages = self.driver, self.messages
        driver.prepares.append(sorted(claim.name for claim in request.claims))
        await driver.hold.wait()
        response = messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            if claim.name in driver.skipped:
                continue
            answer = response.claims[claim.uid]
            if claim.name in driver.errors:
                answer.error = driver.errors[claim.name]
                continue
            for name, request_name in zip(driver.write_spec(claim), driver.requests, strict=True):
                answer.devices.append(
                    messages.Device(
                        request_names=[request_name],
                        pool_name="pool",
                        device_name=f"device-{request_name}",
                        cdi_device_ids=[name],
                    )
                )
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        driver, messages = self.driver, self.messages
        driver.unprepares.append(sorted(claim.name for claim in request.claims))
        await driver.unprepare_hold.wait()
        response = messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            if claim.name in driver.skipped:
                continue
            answer = response.claims[claim.uid]
            answer.error = driver.unprepare_errors.get(claim.name, "")
            if not answer.error:
                driver.remove_spec(claim.uid)
        return response


class _Health:
    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver

    async def NodeWatchResources(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[health_v1.NodeWatchResourcesResponse]:
        self.driver.health_calls += 1
        if not self.driver.health_supported:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health")
        while True:
            yield await self.driver.health.get()


class _OldHealth(_Health):
    """The same messages under the older service."""

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        async for report in super().NodeWatchResources(request, context):
            yield health_v1alpha1.NodeWatchResourcesResponse.FromString(report.SerializeToString())
