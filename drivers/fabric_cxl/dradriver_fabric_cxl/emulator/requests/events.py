"""EventService: server-sent events and subscriptions.

Source: Redfish specification (DSP0266), "Server-sent events" and "Eventing".
"""

import asyncio
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import aiohttp
import msgspec
from aiohttp import web

from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.paths import SESSIONS, SUBSCRIPTIONS, TASKS, link, parent_of
from dradriver_fabric_cxl.emulator.storage import Body, State, Storage

__all__ = ["EventService"]

_TASK_MESSAGES: Final = {
    "Running": "TaskStarted",
    "Completed": "TaskCompletedOK",
    "Cancelled": "TaskCancelled",
    "Exception": "TaskAborted",
}
_DELIVERY_SECONDS: Final = 5.0


class EventService:
    """Sends an event for each change of a resource.

    Events are not in the state: what happens while nobody listens, or while the process is away, is not sent.
    Subscribers get an event at most once.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._streams: dict[str, asyncio.Queue[Body | None]] = {}
        self._deliveries: set[asyncio.Task[None]] = set()
        self._boot, self._count = uuid.uuid4().hex[:8], 0
        storage.listeners.append(self._compare)

    async def start(self) -> None:
        """Forget the streams of the previous process."""
        async with self._storage.change() as state:
            for path in _subscriptions(state, "SSE"):
                del state.resources[path]

    async def stop(self) -> None:
        """End all streams and deliveries."""
        for queue in self._streams.values():
            queue.put_nowait(None)
        deliveries = list(self._deliveries)
        for task in deliveries:
            task.cancel()
        for task in deliveries:
            with suppress(asyncio.CancelledError):
                await task

    async def subscribe(self, body: Body) -> str:
        """Add a subscription that is delivered with POST; return its URI.

        Raises:
            RedfishError: a property is missing or not supported.
        """
        if body.get("Protocol") != "Redfish":
            text = f"Protocol {body.get('Protocol')!r} must be Redfish."
            raise RedfishError(
                400,
                "PropertyValueNotInList",
                text,
                [str(body.get("Protocol")), "Protocol"],
                properties=["/Protocol"],
            )
        destination = body.get("Destination")
        if not isinstance(destination, str) or not destination.startswith(("http://", "https://")):
            raise RedfishError(
                400,
                "PropertyValueFormatError",
                "Destination must be an HTTP URL.",
                [str(destination), "Destination"],
                properties=["/Destination"],
            )
        return await self._add("RedfishEvent", str(body.get("Context", "")), destination)

    async def stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send events until the client or the service closes the stream."""
        path = await self._add("SSE", "", None)
        queue = self._streams[path] = asyncio.Queue()
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "OData-Version": "4.0"}
        )
        try:
            await response.prepare(request)
            await response.write(b": stream of events\n\n")
            await self._send(request, response, queue)
        except ConnectionError:
            pass
        finally:
            del self._streams[path]
            async with self._storage.change() as state:
                state.resources.pop(path, None)
        return response

    async def _send(
        self, request: web.BaseRequest, response: web.StreamResponse, queue: asyncio.Queue[Body | None]
    ) -> None:
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), 1.0)
            except TimeoutError:
                # A closed connection is noticed only here while there is nothing to send.
                if request.transport is None or request.transport.is_closing():
                    return
                continue
            if event is None:
                return
            await response.write(f"id: {event['Id']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n")

    async def _add(self, kind: str, context: str, destination: str | None) -> str:
        async with self._storage.change() as state:
            number = state.next_number()
            path = f"{SUBSCRIPTIONS}/{number}"
            state.resources[path] = {
                "@odata.id": path,
                "@odata.type": "#EventDestination.v1_15_0.EventDestination",
                "Id": str(number),
                "Name": f"Subscription {number}",
                "Context": context,
                "Destination": destination,
                "Protocol": "Redfish",
                "SubscriptionType": kind,
                "EventFormatType": "Event",
                "DeliveryRetryPolicy": "TerminateAfterRetries" if destination else None,
            }
            if destination is None:
                del state.resources[path]["DeliveryRetryPolicy"], state.resources[path]["Destination"]
        return path

    def _compare(self, before: State, after: State) -> None:
        for path, queue in self._streams.items():
            if path in before.resources and path not in after.resources:
                queue.put_nowait(None)
        changed = [path for path in {**before.resources, **after.resources} if _differs(before, after, path)]
        changed += [
            path for path in after.health if path not in after.resources and _differs(before, after, path)
        ]
        for path in changed:
            if parent_of(path) not in {SESSIONS, SUBSCRIPTIONS}:
                self._emit(path, _message(before, after, path), after)

    def _emit(self, path: str, message: str, state: State) -> None:
        self._count += 1
        number = f"{self._boot}-{self._count}"
        record = {
            "MemberId": "0",
            "EventId": number,
            "EventType": "Other",
            "EventTimestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "MessageId": message,
            "Message": f"{path}: {message.rpartition('.')[2]}",
            "MessageArgs": [],
            "MessageSeverity": "OK",
            "OriginOfCondition": link(path),
        }
        event = {
            "@odata.type": "#Event.v1_11_0.Event",
            "Id": number,
            "Name": "Event",
            "Context": "",
            "Events": [record],
        }
        for queue in self._streams.values():
            queue.put_nowait(event)
        for subscription in _subscriptions(state, "RedfishEvent"):
            body = state.resources[subscription]
            delivery = asyncio.create_task(_deliver(body["Destination"], event | {"Context": body["Context"]}))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._deliveries.discard)


async def _deliver(destination: str, event: Body) -> None:
    """Send an event once; a subscriber that does not answer misses it."""
    timeout = aiohttp.ClientTimeout(total=_DELIVERY_SECONDS)
    with suppress(aiohttp.ClientError, TimeoutError):
        async with aiohttp.ClientSession(timeout=timeout) as session:
            # The certificate of a subscriber is not verified: `VerifyCertificate` is not supported.
            (await session.post(destination, json=event, ssl=False)).release()


def _subscriptions(state: State, kind: str) -> list[str]:
    return [
        path
        for path, body in state.resources.items()
        if parent_of(path) == SUBSCRIPTIONS and body["SubscriptionType"] == kind
    ]


def _differs(before: State, after: State, path: str) -> bool:
    return before.resources.get(path) != after.resources.get(path) or before.health.get(
        path
    ) != after.health.get(path)


def _message(before: State, after: State, path: str) -> str:
    body = after.resources.get(path)
    if parent_of(path) == TASKS and body is not None:
        return f"TaskEvent.1.0.{_TASK_MESSAGES[body['TaskState']]}"
    if path in before.resources and body is None:
        return "ResourceEvent.1.4.ResourceRemoved"
    if path not in before.resources and body is not None:
        return "ResourceEvent.1.4.ResourceCreated"
    if before.health.get(path) != after.health.get(path):
        severity = {"Critical": "Critical", "Warning": "Warning"}.get(after.health.get(path, ""), "OK")
        return f"ResourceEvent.1.4.ResourceStatusChanged{severity}"
    return "ResourceEvent.1.4.ResourceChanged"
