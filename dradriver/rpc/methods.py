"""Which methods a servicer serves: those of a service's descriptor, by the path under which they are called."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

__all__ = ["Method", "methods_of"]

Handler: TypeAlias = Callable[[Any], Awaitable[Message]] | Callable[[Any], AsyncIterator[Message]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        request: the class of its request.
        handler: takes a request, and gives the answer, or with `streams` answers; may raise `RpcError`.
        streams: whether it answers any number of times.
    """

    request: type[Message]
    handler: Handler
    streams: bool


def methods_of(service: ServiceDescriptor, servicer: object) -> dict[str, Method]:
    """The methods of a service by path.

    Args:
        service: as protobuf describes it: `messages.DESCRIPTOR.services_by_name["DRAPlugin"]`.
        servicer: has a method of each name that takes the request: a coroutine function, or where the service
            streams its answers an asynchronous generator.

    Raises:
        AttributeError: a method is missing.
    """
    return {
        f"/{service.full_name}/{method.name}": Method(
            GetMessageClass(method.input_type), getattr(servicer, method.name), method.server_streaming
        )
        for method in service.methods
    }
