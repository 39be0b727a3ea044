"""What a driver returned, checked: answers of `prepare` in the form that is recorded, and lists of claims."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.prepared import PreparedDevice
from dradriver.errors import DriverError, InvalidObjectError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.codec import canonical
from dradriver.model.device import Device
from dradriver.node.cdi import usable_uid
from dradriver.node.records import RecordedAnswer, as_recorded

__all__ = ["listed_claims", "recorded_answer", "recorded_answers"]

_CDI_ID: Final = re.compile(r"[^/=\s]+/[^/=\s]+=[^/=\s]+")


def recorded_answers(
    driver: str, claim: Claim, returned: Mapping[AllocatedDevice, PreparedDevice | ContainerEdits]
) -> list[RecordedAnswer]:
    """What the driver returned, one answer a device in the claim's order.

    Raises:
        DriverError: it is no mapping, lacks a device, or an answer is of another kind.
    """
    told = f"driver {driver}: prepare() of claim {claim}"
    if not isinstance(returned, Mapping):
        raise DriverError(
            f"{told} returned {type(returned).__name__}, a mapping from devices to answers is wanted"
        )
    answers = []
    for device in claim.devices:
        answer = returned.get(device)
        if isinstance(answer, ContainerEdits):
            answer = PreparedDevice(edits=answer)
        if not isinstance(answer, PreparedDevice):
            what = f"{type(answer).__name__}" if device in returned else "no answer"
            raise DriverError(f"{told} returned {what} for device {device.pool}/{device.name}")
        answers.append(recorded_answer(answer, f"{told} returned for device {device.pool}/{device.name}"))
    return answers


def recorded_answer(answer: PreparedDevice, told: str) -> RecordedAnswer:
    """One device's answer; `told` begins the message about what is wrong with it.

    Raises:
        DriverError: a value is none of its field's.
    """
    if not isinstance(answer.edits, ContainerEdits):
        raise DriverError(f"{told} {type(answer.edits).__name__} for container edits")
    try:
        # Device is the one place that knows what may stand for an attribute.
        metadata = None if answer.metadata is None else Device("any", answer.metadata).attributes
        data = msgspec.UNSET if answer.data is None else msgspec.Raw(canonical(answer.data))
        recorded = RecordedAnswer(
            edits=answer.edits,
            cdi_ids=list(answer.cdi_ids),
            metadata=metadata,
            data=data,
            conditions=list(answer.conditions),
            network=answer.network,
        )
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise DriverError(f"{told} metadata or data that is no JSON value, or no list: {error}") from error
    try:
        recorded = as_recorded(recorded, "an answer that can't be recorded")
    except InvalidObjectError as error:
        raise DriverError(f"{told} {error}") from error
    for cdi_id in recorded.cdi_ids:
        if not _CDI_ID.fullmatch(cdi_id):
            raise DriverError(f"{told} {cdi_id!r}, which is no CDI ID (vendor/class=name)")
    return recorded


def listed_claims(driver: str, returned: object) -> set[str]:
    """The UIDs that `prepared_claims()` returned; they become names of files, so each is looked at.

    Raises:
        DriverError: it is no list of UIDs.
    """
    if returned is None:
        return set()
    told = f"driver {driver}: prepared_claims()"
    if isinstance(returned, str) or not isinstance(returned, Iterable):
        raise DriverError(f"{told} returned {type(returned).__name__}, a list of UIDs is wanted")
    uids: set[str] = set()
    for uid in returned:
        if not (isinstance(uid, str) and usable_uid(uid)):
            raise DriverError(f"{told} returned {uid!r} among others, which is no UID of a claim")
        uids.add(uid)
    return uids
