"""Errors as Redfish returns them.

Source: Redfish specification (DSP0266), "Error responses"; Base message registry.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["RedfishError", "describe_error"]

_REGISTRY: Final = "Base.1.19"


class RedfishError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message_id: name of the message in the Base registry.
        text: the message.
        arguments: arguments of the message.
        properties: JSON pointers to the properties of the request that it concerns.
        headers: further HTTP headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message_id: str,
        text: str,
        arguments: Sequence[str] = (),
        *,
        properties: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status, self.message_id, self.text = status, message_id, text
        self.headers = dict(headers or {})
        self._arguments, self._properties = arguments, properties

    def body(self) -> dict[str, Any]:
        """Return the JSON object of the answer."""
        return describe_error(self.message_id, self.text, self._arguments, self._properties)


def describe_error(
    message_id: str, text: str, arguments: Sequence[str] = (), properties: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the JSON object of an error.

    Args:
        message_id: name of the message in the Base registry.
        text: the message.
        arguments: arguments of the message.
        properties: JSON pointers to the properties of the request that it concerns.
    """
    message = {
        "@odata.type": "#Message.v1_2_0.Message",
        "MessageId": f"{_REGISTRY}.{message_id}",
        "Message": text,
        "MessageArgs": list(arguments),
        "MessageSeverity": "Critical",
        "Resolution": "None.",
    }
    if properties:
        message["RelatedProperties"] = list(properties)
    return {"error": {"code": f"{_REGISTRY}.{message_id}", "message": text, "@Message.ExtendedInfo": [message]}}
