"""Names of the points between two side effects on a claim, where a process may die.

In production the observer does nothing. Tests pass an observer that kills the process, raises, or waits.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

__all__ = ["CrashPoint", "Observer", "observe_nothing"]


class CrashPoint(StrEnum):
    """The side effect on a claim that has just been completed."""

    PREPARE_RECORDED = "prepare: claim recorded as preparing"
    PREPARE_DRIVER_DONE = "prepare: driver.prepare returned"
    PREPARE_METADATA_WRITTEN = "prepare: device metadata written"
    PREPARE_SPEC_WRITTEN = "prepare: CDI spec written"
    PREPARE_FINISHED = "prepare: claim recorded as prepared"
    UNPREPARE_RECORDED = "unprepare: claim recorded as unpreparing"
    UNPREPARE_DRIVER_DONE = "unprepare: driver.unprepare returned"
    UNPREPARE_SPEC_REMOVED = "unprepare: CDI spec removed"
    UNPREPARE_METADATA_REMOVED = "unprepare: device metadata removed"
    UNPREPARE_FINISHED = "unprepare: claim no longer recorded"


Observer: TypeAlias = Callable[[CrashPoint, str], None]
"""Callback with a step and the claim's UID; called on the event loop or in a worker thread."""


def observe_nothing(step: CrashPoint, uid: str) -> None:
    """Do nothing; this is the observer in production."""
