"""Remove users' configuration and drivers' answers from logs, Events and answers to the kubelet.

Opaque parameters, handles of controllers, container edits and metadata may contain secrets, and error messages
quote values. A decoder quotes a value that is not in an enumeration, an author's rule quotes a rejected value,
and a driver's exception quotes its arguments. So each message about a failed claim is searched for the values
of the claim's configuration, its handles and the driver's answers. Names of fields, devices, pools and requests
are not removed, and neither are the `apiVersion` and `kind` of a configuration.
"""

import base64
import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.node.state.records import ClaimRecord, RecordedDevice

__all__ = ["format_origin", "redact_error", "redact_text"]

E = TypeVar("E", bound=DraError)

HIDDEN: Final = "(hidden)"

_MIN_LENGTH: Final = 4
"""Minimum length of a removed text, in characters.

Shorter texts are not secrets, and messages without them would be unreadable.
"""


def redact_error(error: E, record: ClaimRecord, answers: object = None) -> E:
    """Remove the claim's secrets from the error's message, and return the error.

    Args:
        error: the error.
        record: the claim.
        answers: the result of `driver.prepare`, if the record does not have the answers. It may have any type.
    """
    error.args = (redact_text(str(error), record, answers),)
    return error


def redact_text(text: str, record: ClaimRecord, answers: object = None) -> str:
    """Return the text without the values of the claim's configuration and handles, and the driver's answers."""
    names = {name for device in record.devices for name in (device.request, device.pool, device.device)}
    names |= {record.namespace, record.name, record.uid}
    secrets = {
        spelling for secret in _find_secrets(record, answers) for spelling in _find_spellings(secret)
    } - names
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def format_origin(error: BaseException) -> str:
    """Return the error's type and the lines that raised it, without its message, which may quote secrets."""
    frames = traceback.extract_tb(error.__traceback__)
    locations = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__} at {locations or 'an unknown location'}"


def _find_secrets(record: ClaimRecord, answers: object) -> Iterator[str]:
    for device in record.devices:
        yield from _parameters(device)
    for handle in record.handles:
        yield from _handle(handle)
    returned = answers.values() if isinstance(answers, Mapping) else ()
    for answer in (*record.answers, *returned):
        yield from _answer(answer)


def _parameters(device: RecordedDevice) -> Iterator[str]:
    for text in device.parameters:
        values = _decode_json(text)
        if isinstance(values, Mapping):
            values = {key: value for key, value in values.items() if key not in {"apiVersion", "kind"}}
        yield from _texts(values)


def _handle(data: bytes) -> Iterator[str]:
    """Yield the forms of a handle's data in messages: as text, as a Python literal, base64 or hexadecimal."""
    yield from (repr(data)[2:-1], base64.b64encode(data).decode(), data.hex())
    with suppress(UnicodeDecodeError):
        yield from _texts(data.decode())
    values = _decode_json(data)
    if isinstance(values, Mapping):
        values = {key: value for key, value in values.items() if key not in {"apiVersion", "kind"}}
    yield from _texts(values)


def _answer(answer: object) -> Iterator[str]:
    """Yield the texts of an answer of any shape, except for paths, CDI IDs and conditions."""
    edits = answer if isinstance(answer, ContainerEdits) else getattr(answer, "edits", None)
    if isinstance(edits, ContainerEdits):
        yield from _texts(edits.env)
        yield from _texts([[hook.args, hook.env] for hook in edits.hooks])
    yield from _texts(getattr(answer, "metadata", None))
    yield from _texts(getattr(answer, "data", None))


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a value except for keys; for `NAME=value`, also yield the part after the `=`."""
    if isinstance(value, str):
        yield value
        yield value.partition("=")[2]
    elif isinstance(value, msgspec.Raw):
        yield from _texts(_decode_json(bytes(value)))
    elif isinstance(value, msgspec.Struct):
        yield from _texts([getattr(value, name) for name in value.__struct_fields__])
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _decode_json(text: str | bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _find_spellings(secret: str) -> Iterator[str]:
    """Yield the forms of a value in messages: unchanged, as quoted by Python or JSON, and line by line."""
    for text in (secret, *secret.splitlines()):
        if len(text.strip()) >= _MIN_LENGTH:
            yield from {text, repr(text)[1:-1], json.dumps(text)[1:-1]}
