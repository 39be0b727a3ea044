"""One registered instance of a driver: its connection and the calls that the kubelet makes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from dradriver.cluster.kubelet.claims.health import DeviceReport, HealthCache
from dradriver.cluster.kubelet.plugins.services import DRA_V1, HEALTH_V1, Services
from dradriver.errors import DraError
from dradriver.wire import dra_v1, dra_v1beta1, health_v1, health_v1alpha1
from dradriver.wire.stubs import dra_v1_grpc, dra_v1beta1_grpc, health_v1_grpc, health_v1alpha1_grpc

__all__ = ["CHANNEL_OPTIONS", "ClaimResult", "ClaimToPrepare", "PluginDevice", "RegisteredPlugin"]

_log = logging.getLogger(__name__)

# Without this option, all channels to one path share a connection and its backoff, even after the server was
# replaced.
CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)

_HEALTH_RETRY_SECONDS: Final = 5.0
_HEALTH: Final = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}


@dataclass(frozen=True, slots=True)
class ClaimToPrepare:
    """The reference to a claim in calls to a driver."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device of a prepared claim, as returned by the driver."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_devices: tuple[str, ...]
    share_id: str


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The driver's answer for one claim: an error, or devices (empty for unprepare)."""

    error: str
    devices: tuple[PluginDevice, ...] = ()


class RegisteredPlugin:
    """A driver instance, identified by its endpoint.

    `start()` connects. `stop()` ends the tasks and the connection.

    Attributes:
        driver: the driver's name.
        endpoint: the path of the driver's socket.
        connected: whether the connection is up now.
    """

    def __init__(
        self,
        driver: str,
        endpoint: str,
        services: Services,
        *,
        call_timeout: float,
        on_change: Callable[[str], None],
        health: HealthCache,
        on_health_changed: Callable[[str, set[tuple[str, str]]], None],
    ) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.connected = False
        self._services = services
        self._timeout = call_timeout
        self._on_change = on_change
        self._health = health
        self._on_health_changed = on_health_changed
        self._tasks: list[asyncio.Task[None]] = []
        self._channel: grpc.aio.Channel | None = None

    def start(self) -> None:
        """Connect and stay connected. If the driver offers the health service, watch the health of devices."""
        self._channel = grpc.aio.insecure_channel(f"unix:{self.endpoint}", options=CHANNEL_OPTIONS)
        work = [self._follow_connection(self._channel)]
        if self._services.health:
            work.append(self._follow_health(self._channel))
        self._tasks = [asyncio.create_task(each, name=f"plugin {self.driver}") for each in work]

    async def stop(self) -> None:
        """End the connection. Calls in progress fail."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._channel is not None:
            await self._channel.close(None)
        self.connected = False

    async def prepare(self, claims: Sequence[ClaimToPrepare]) -> Mapping[str, ClaimResult]:
        """Call NodePrepareResources for these claims and return the answers by claim UID.

        Raises:
            DraError: the call as a whole failed.
        """
        return await self._call("NodePrepareResources", claims)

    async def unprepare(self, claims: Sequence[ClaimToPrepare]) -> Mapping[str, ClaimResult]:
        """Call NodeUnprepareResources for these claims and return the answers by claim UID.

        Raises:
            DraError: the call as a whole failed.
        """
        return await self._call("NodeUnprepareResources", claims)

    async def _call(self, method: str, claims: Sequence[ClaimToPrepare]) -> Mapping[str, ClaimResult]:
        v1 = self._services.dra == DRA_V1
        messages: Any = dra_v1 if v1 else dra_v1beta1
        stub: Any = (dra_v1_grpc if v1 else dra_v1beta1_grpc).DRAPluginStub(self._channel)
        request = getattr(messages, f"{method}Request")(
            claims=[messages.Claim(namespace=c.namespace, uid=c.uid, name=c.name) for c in claims]
        )
        try:
            call: Awaitable[Any] = getattr(stub, method)(request, timeout=self._timeout)
            response = await call
        except asyncio.CancelledError as error:
            # If `stop` cancels the call, grpcio raises this error in the caller, which must go on.
            if _is_cancelled():
                raise
            raise DraError(f"{method}: {_STOPPED}") from error
        except grpc.aio.UsageError as error:
            raise DraError(f"{method}: {_STOPPED}") from error
        except grpc.aio.AioRpcError as error:
            reason = self._describe_lost_connection(error) or _format_rpc_error(error)
            raise DraError(f"{method}: {reason}") from error
        return {uid: _to_result(answer) for uid, answer in response.claims.items()}

    def _describe_lost_connection(self, error: grpc.aio.AioRpcError) -> str:
        """Return a message if the error means that the driver's process ended during the call, else ""."""
        codes = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN}
        gone = error.code() in codes and any(word in (error.details() or "") for word in _CONNECTION_LOST)
        return f"DRA driver {self.driver} ended during the call" if gone else ""

    async def _follow_connection(self, channel: grpc.aio.Channel) -> None:
        while True:
            # The channel is asked to connect each time, so that a restarted driver is detected without a call.
            state = channel.get_state(try_to_connect=True)
            connected = state is grpc.ChannelConnectivity.READY
            if connected != self.connected:
                self.connected = connected
                _log.info(
                    "driver %s at %s is %sconnected", self.driver, self.endpoint, "" if connected else "dis"
                )
                self._on_change(self.driver)
            await channel.wait_for_state_change(state)

    async def _follow_health(self, channel: grpc.aio.Channel) -> None:
        """Watch the health of devices.

        If the stream ends, watch again, unless the driver has no health service.
        """
        while True:
            try:
                async for reports in self._watch_health(channel):
                    changed = self._health.update(self.driver, reports)
                    if changed:
                        self._on_health_changed(self.driver, changed)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                _log.debug("health of driver %s: %s", self.driver, _format_rpc_error(error))
            finally:
                self._health.clear(self.driver)
            await asyncio.sleep(_HEALTH_RETRY_SECONDS)

    async def _watch_health(self, channel: grpc.aio.Channel) -> AsyncIterator[list[DeviceReport]]:
        v1 = self._services.health == HEALTH_V1
        messages: Any = health_v1 if v1 else health_v1alpha1
        stub: Any = (health_v1_grpc if v1 else health_v1alpha1_grpc).DRAResourceHealthStub(channel)
        async for response in stub.NodeWatchResources(messages.NodeWatchResourcesRequest()):
            yield [
                DeviceReport(
                    each.device.pool_name,
                    each.device.device_name,
                    _HEALTH.get(each.health, "Unknown"),
                    each.message,
                    float(each.health_check_timeout_seconds),
                )
                for each in response.devices
            ]


def _is_cancelled() -> bool:
    """Return whether the current task is cancelled, and not only its call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _to_result(answer: Any) -> ClaimResult:  # noqa: ANN401 - of either version
    devices = tuple(
        PluginDevice(
            tuple(device.request_names),
            device.pool_name,
            device.device_name,
            tuple(device.cdi_device_ids),
            getattr(device, "share_id", ""),
        )
        for device in getattr(answer, "devices", ())
    )
    return ClaimResult(answer.error, devices)


_CONNECTION_LOST: Final = ("Socket closed", "Stream removed", "Connection reset", "Broken pipe")
_STOPPED: Final = "rpc error: code = Canceled desc = grpc: the client connection is closing"
"""The error of Go if the connection is closed before or during a call."""
_GO_CODES: Final = {"CANCELLED": "Canceled"}


def _format_rpc_error(error: grpc.aio.AioRpcError) -> str:
    """Return the error as Go prints it."""
    name = error.code().name
    code = _GO_CODES.get(name, name.title().replace("_", ""))
    return f"rpc error: code = {code} desc = {error.details()}"
