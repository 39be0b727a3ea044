"""Check a driver's return values: results of `prepare` in recorded form, and lists of claims."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.code_places import at
from dradriver.driver.prepared import PreparedDevice
from dradriver.errors import DriverError, InvalidObjectError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.encoding.codec import canonical
from dradriver.model.encoding.plain_input import as_tuple, at_field
from dradriver.model.resource.device import as_attributes
from dradriver.node.files.cdi import usable_uid
from dradriver.node.state.records import RecordedAnswer, as_recorded

__all__ = ["listed_claims", "recorded_answer", "recorded_answers"]

_CDI_ID: Final = re.compile(r"[^/=\s]+/[^/=\s]+=[^/=\s]+")


def recorded_answers(
    driver: str,
    claim: Claim,
    returned: Mapping[AllocatedDevice, PreparedDevice | ContainerEdits],
    place: str = "",
) -> list[RecordedAnswer]:
    """Convert the result of `prepare` to one answer for each device, in the claim's order.

    Args:
        driver: the driver's name.
        claim: the claim that was prepared.
        returned: the result.
        place: file and line of `prepare`, for messages.

    Raises:
        DriverError: the result is not a mapping, lacks a device, or has a value of another type.
    """
    told = f"driver {driver}: prepare() of claim {claim} returned"
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise DriverError(f"{told} {kind}, a mapping from devices to answers is wanted{at(place)}")
    answers = []
    for device in claim.devices:
        answer = returned.get(device)
        if isinstance(answer, ContainerEdits):
            answer = PreparedDevice(edits=answer)
        name = f"for device {device.pool}/{device.name}"
        if not isinstance(answer, PreparedDevice):
            what = f"{type(answer).__name__}" if device in returned else "no answer"
            wanted = "ContainerEdits or a PreparedDevice is wanted"
            raise DriverError(f"{told} {what} {name}: {wanted}{at(place)}")
        answers.append(recorded_answer(answer, f"{told} {name}", place))
    return answers


def recorded_answer(answer: PreparedDevice, told: str, place: str = "") -> RecordedAnswer:
    """Convert the answer for one device to its recorded form.

    Args:
        answer: the driver's answer for the device.
        told: the start of the error message.
        place: file and line of the author's code, for messages.

    Raises:
        DriverError: a value does not fit its field. The message names the field.
    """
    if not isinstance(answer.edits, ContainerEdits):
        kind = type(answer.edits).__name__
        raise DriverError(f"{told} edits: {kind}, ContainerEdits are wanted{at(place)}")
    field = ""
    try:
        field = "metadata"
        metadata = None if answer.metadata is None else as_attributes(answer.metadata)
        field = "data"
        data = msgspec.UNSET if answer.data is None else msgspec.Raw(canonical(answer.data))
        field = "cdi_ids"
        cdi_ids = as_tuple(answer.cdi_ids)
        field = "conditions"
        conditions = as_tuple(answer.conditions)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise DriverError(f"{told} {at_field(field, error)}{at(place)}") from error
    recorded = RecordedAnswer(
        edits=answer.edits,
        cdi_ids=list(cdi_ids),
        metadata=metadata,
        data=data,
        conditions=list(conditions),
        network=answer.network,
    )
    try:
        recorded = as_recorded(recorded, "an answer that can't be recorded")
    except InvalidObjectError as error:
        raise DriverError(f"{told} {error}{at(place)}") from error
    for cdi_id in recorded.cdi_ids:
        if not _CDI_ID.fullmatch(cdi_id):
            raise DriverError(f"{told} cdi_ids: {cdi_id!r}, which is no CDI ID (vendor/class=name){at(place)}")
    return recorded


def listed_claims(driver: str, returned: object, place: str = "") -> set[str]:
    """Check the UIDs that `prepared_claims()` returned; each is validated because it becomes a file name.

    Args:
        driver: the driver's name.
        returned: the result.
        place: file and line of the method, for messages.

    Raises:
        DriverError: the result is not a list of UIDs.
    """
    if returned is None:
        return set()
    told = f"driver {driver}: prepared_claims()"
    if isinstance(returned, str) or not isinstance(returned, Iterable):
        raise DriverError(f"{told} returned {type(returned).__name__}, a list of UIDs is wanted{at(place)}")
    uids: set[str] = set()
    for index, uid in enumerate(returned):
        if not (isinstance(uid, str) and usable_uid(uid)):
            raise DriverError(
                f"{told} returned {uid!r} at index {index}, which is no UID of a claim{at(place)}"
            )
        uids.add(uid)
    return uids
