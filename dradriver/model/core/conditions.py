"""Reads and changes lists of conditions (`[]metav1.Condition`), in which each type occurs once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dradriver.model.core.meta import Condition

__all__ = ["MAX_CONDITIONS", "is_true", "put"]

MAX_CONDITIONS: Final = 8
"""Maximum number of conditions in an entry of `status.devices` (`AllocatedDeviceStatusMaxConditions`)."""


def is_true(conditions: Sequence[Condition], kind: str) -> bool:
    """Return whether the condition of type `kind` is True."""
    return any(each.type == kind and each.status == "True" for each in conditions)


def put(conditions: Sequence[Condition], new: Condition, now: datetime) -> list[Condition]:
    """Return the list with `new` added. Any existing condition of the same type is replaced.

    If the existing condition has the same status, its `last_transition_time` is kept.
    """
    current = next((each for each in conditions if each.type == new.type), None)
    is_unchanged = current is not None and current.status == new.status
    transition_time = current.last_transition_time if current is not None and is_unchanged else now
    updated = replace(new, last_transition_time=transition_time or now)
    if current is None:
        return [*conditions, updated]
    return [updated if each.type == new.type else each for each in conditions]
