"""Check a driver's return values: convert results of `prepare` to records, and check claim UIDs."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.prepared import PreparedDevice
from dradriver.driver.source_locations import format_location
from dradriver.errors import DriverError, InvalidObjectError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.encoding.codec import canonical
from dradriver.model.encoding.plain_input import as_tuple, format_field_error
from dradriver.model.resource.device import as_attributes
from dradriver.node.files.cdi import is_usable_uid
from dradriver.node.state.records import RecordedAnswer, as_recorded

__all__ = ["check_listed_claims", "record_answer", "record_answers"]

_CDI_ID: Final = re.compile(r"[^/=\s]+/[^/=\s]+=[^/=\s]+")


def record_answers(
    driver: str,
    claim: Claim,
    returned: Mapping[AllocatedDevice, PreparedDevice | ContainerEdits],
    location: str = "",
) -> list[RecordedAnswer]:
    """Convert the result of `prepare` to one answer for each device, in the claim's order.

    Args:
        driver: the driver's name.
        claim: the claim that was prepared.
        returned: the result of `prepare`.
        location: file and line of `prepare`, for messages.

    Raises:
        DriverError: the result is not a mapping, lacks a device, or has a value of another type.
    """
    subject = f"driver {driver}: prepare() of claim {claim} returned"
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise DriverError(
            f"{subject} {kind}: must be a mapping from devices to answers{format_location(location)}"
        )
    answers = []
    for device in claim.devices:
        answer = returned.get(device)
        if isinstance(answer, ContainerEdits):
            answer = PreparedDevice(edits=answer)
        name = f"for device {device.pool}/{device.name}"
        if not isinstance(answer, PreparedDevice):
            given = f"{type(answer).__name__}" if device in returned else "no answer"
            rule = "must be ContainerEdits or a PreparedDevice"
            raise DriverError(f"{subject} {given} {name}: {rule}{format_location(location)}")
        answers.append(record_answer(answer, f"{subject} {name}", location))
    return answers


def record_answer(answer: PreparedDevice, subject: str, location: str = "") -> RecordedAnswer:
    """Convert the answer for one device to its recorded form.

    Args:
        answer: the driver's answer for the device.
        subject: the start of the error message.
        location: file and line of the author's code, for messages.

    Raises:
        DriverError: a value does not have the type or form of its field. The message names the field.
    """
    if not isinstance(answer.edits, ContainerEdits):
        kind = type(answer.edits).__name__
        raise DriverError(f"{subject} edits: {kind}: must be ContainerEdits{format_location(location)}")
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
        raise DriverError(f"{subject} {format_field_error(field, error)}{format_location(location)}") from error
    recorded = RecordedAnswer(
        edits=answer.edits,
        cdi_ids=list(cdi_ids),
        metadata=metadata,
        data=data,
        conditions=list(conditions),
        network=answer.network,
    )
    try:
        recorded = as_recorded(recorded, "answer")
    except InvalidObjectError as error:
        raise DriverError(f"{subject} {error}{format_location(location)}") from error
    for cdi_id in recorded.cdi_ids:
        if not _CDI_ID.fullmatch(cdi_id):
            rule = f"{cdi_id!r}: must be a CDI ID (vendor/class=name)"
            raise DriverError(f"{subject} cdi_ids: {rule}{format_location(location)}")
    return recorded


def check_listed_claims(driver: str, returned: object, location: str = "") -> set[str]:
    """Check the UIDs that `prepared_claims()` returned: each UID must be usable in a file name.

    Args:
        driver: the driver's name.
        returned: the result.
        location: file and line of the method, for messages.

    Raises:
        DriverError: the result is not a list of UIDs.
    """
    if returned is None:
        return set()
    subject = f"driver {driver}: prepared_claims()"
    if isinstance(returned, str) or not isinstance(returned, Iterable):
        raise DriverError(
            f"{subject} returned {type(returned).__name__}: must be a list of UIDs{format_location(location)}"
        )
    uids: set[str] = set()
    for index, uid in enumerate(returned):
        if not (isinstance(uid, str) and is_usable_uid(uid)):
            rule = f"{uid!r} at index {index}: must be the UID of a claim"
            raise DriverError(f"{subject} returned {rule}{format_location(location)}")
        uids.add(uid)
    return uids
