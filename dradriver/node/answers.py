"""What a driver's `prepare` returned, checked and in the form that is recorded."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.prepared import PreparedDevice
from dradriver.errors import DriverError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.codec import canonical
from dradriver.model.device import Device
from dradriver.node.records import RecordedAnswer

__all__ = ["recorded_answers"]

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
        answers.append(_recorded_answer(answer, told))
    return answers


def _recorded_answer(answer: PreparedDevice, told: str) -> RecordedAnswer:
    try:
        # Device is the one place that knows what may stand for an attribute.
        metadata = Device("any", answer.metadata).attributes
        data = msgspec.UNSET if answer.data is None else msgspec.Raw(canonical(answer.data))
    except (TypeError, NotImplementedError) as error:
        raise DriverError(f"{told} returned metadata or data that is no JSON value: {error}") from error
    for cdi_id in answer.cdi_ids:
        if not _CDI_ID.fullmatch(cdi_id):
            raise DriverError(f"{told} returned {cdi_id!r}, which is no CDI ID (vendor/class=name)")
    return RecordedAnswer(
        edits=answer.edits,
        cdi_ids=list(answer.cdi_ids),
        metadata=metadata,
        data=data,
        conditions=list(answer.conditions),
        network=answer.network,
    )
