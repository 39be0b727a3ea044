"""Keep users' configuration and drivers' answers out of logs, Events and answers to the kubelet.

Opaque parameters, container edits and metadata may contain secrets, and messages quote values. A decoder quotes
the value that is not in an enumeration, an author's rule quotes a rejected value, and a driver's exception
quotes its arguments. So each message about a failed claim is searched for these values. Names stay: of fields,
devices, pools and requests, and a configuration's `apiVersion` and `kind`.
"""

import json
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.node.state.records import ClaimRecord, RecordedDevice

__all__ = ["hidden", "redacted", "where"]

E = TypeVar("E", bound=DraError)

HIDDEN: Final = "(hidden)"

_SHORTEST: Final = 4
"""Characters. Shorter values are no secrets, and hiding them would make messages unreadable."""


def redacted(error: E, record: ClaimRecord, answers: object = None) -> E:
    """Replace the error's arguments, so that its message quotes no secret of the claim, and return it.

    Args:
        error: the error.
        record: the claim.
        answers: the driver's answers of any type, if they are not in the record.
    """
    error.args = (hidden(str(error), record, answers),)
    return error


def hidden(text: str, record: ClaimRecord, answers: object = None) -> str:
    """Return the text without the values of the claim's configuration and the driver's answers."""
    names = {name for device in record.devices for name in (device.request, device.pool, device.device)}
    names |= {record.namespace, record.name, record.uid}
    secrets = {spelt for secret in _secrets(record, answers) for spelt in _spellings(secret)} - names
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def where(error: BaseException) -> str:
    """Return the error's type and the place of its origin, without its message, which may quote secrets."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places or 'an unknown place'}"


def _secrets(record: ClaimRecord, answers: object) -> Iterator[str]:
    for device in record.devices:
        yield from _parameters(device)
    told = answers.values() if isinstance(answers, Mapping) else ()
    for answer in (*record.answers, *told):
        yield from _answer(answer)


def _parameters(device: RecordedDevice) -> Iterator[str]:
    for text in device.parameters:
        values = _json(text)
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
    """Yield every text in a value except for keys; of an environment's `NAME=value` also the value alone."""
    if isinstance(value, str):
        yield value
        yield value.partition("=")[2]
    elif isinstance(value, msgspec.Raw):
        yield from _texts(_json(bytes(value)))
    elif isinstance(value, Mapping):
        yield from _each(value.values())
    elif isinstance(value, msgspec.Struct):
        yield from _each(getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, list | tuple):
        yield from _each(value)


def _each(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)


def _json(text: str | bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _spellings(secret: str) -> Iterator[str]:
    """Yield the forms of a value in messages: as it is, as Python or JSON quotes it, and line by line."""
    for text in (secret, *secret.splitlines()):
        if len(text.strip()) >= _SHORTEST:
            yield from {text, repr(text)[1:-1], json.dumps(text)[1:-1]}
