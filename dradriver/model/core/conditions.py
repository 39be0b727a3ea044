"""A list of conditions as a value (`[]metav1.Condition`, a map by type)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dradriver.model.core.meta import Condition

__all__ = ["MAX_CONDITIONS", "is_true", "put"]

MAX_CONDITIONS: Final = 8
"""Maximum number of conditions in an entry of `status.devices` (`AllocatedDeviceStatusMaxConditions`)."""


def is_true(conditions: Sequence[Condition], kind: str) -> bool:
    """Return whether the condition of that type is True."""
    return any(each.type == kind and each.status == "True" for each in conditions)


def put(conditions: Sequence[Condition], new: Condition, now: datetime) -> list[Condition]:
    """Return the list with the condition, in the place of the one with its type.

    The time of the last transition is kept if the status does not change.
    """
    before = next((each for each in conditions if each.type == new.type), None)
    same = before is not None and before.status == new.status
    since = before.last_transition_time if before is not None and same else now
    stamped = replace(new, last_transition_time=since or now)
    if before is None:
        return [*conditions, stamped]
    return [stamped if each.type == new.type else each for each in conditions]
