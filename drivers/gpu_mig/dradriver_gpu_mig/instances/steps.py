"""What to do next about a device: a table of what is wanted, what is recorded and what is there.

Each step changes either the record or the hardware, and afterwards both are looked at again; so a process that
dies anywhere is continued by the next one with the next step, and the table is all there is to crash recovery.
"""

import enum
from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.instances.record import State

__all__ = ["STEPS", "Found", "Step", "Wanted", "next_step"]


class Wanted(enum.Enum):
    """What the claim needs."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


class Found(enum.Enum):
    """What the GPU has at the place."""

    NOTHING = enum.auto()
    HALF = enum.auto()  # a GPU instance that nothing lives in
    WHOLE = enum.auto()


class Step(enum.Enum):
    """One change, or the end."""

    RECORD = "record the intent"
    MAKE_GPU_INSTANCE = "make the GPU instance"
    MAKE_COMPUTE_INSTANCE = "make the compute instance"
    CONFIRM = "record that it is ready"
    GIVE_UP = "record that it is to be destroyed"
    DESTROY_COMPUTE_INSTANCES = "destroy what lives in the GPU instance"
    DESTROY_GPU_INSTANCE = "destroy the GPU instance"
    FORGET = "remove the record"
    REFUSE = "leave alone what somebody else made"
    DONE = "nothing"


_PRESENT, _ABSENT = Wanted.PRESENT, Wanted.ABSENT
_NOTHING, _HALF, _WHOLE = Found.NOTHING, Found.HALF, Found.WHOLE

STEPS: Final[Mapping[tuple[Wanted, State | None, Found], Step]] = {
    (_PRESENT, None, _NOTHING): Step.RECORD,
    (_PRESENT, None, _HALF): Step.REFUSE,
    (_PRESENT, None, _WHOLE): Step.REFUSE,
    (_PRESENT, State.CREATING, _NOTHING): Step.MAKE_GPU_INSTANCE,
    (_PRESENT, State.CREATING, _HALF): Step.MAKE_COMPUTE_INSTANCE,
    (_PRESENT, State.CREATING, _WHOLE): Step.CONFIRM,
    # A GPU that was reset has lost it; what was in it is gone, so it may as well be made anew.
    (_PRESENT, State.READY, _NOTHING): Step.MAKE_GPU_INSTANCE,
    (_PRESENT, State.READY, _HALF): Step.MAKE_COMPUTE_INSTANCE,
    (_PRESENT, State.READY, _WHOLE): Step.DONE,
    # What was begun is finished first: half of it may be destroyed.
    (_PRESENT, State.DESTROYING, _NOTHING): Step.FORGET,
    (_PRESENT, State.DESTROYING, _HALF): Step.DESTROY_GPU_INSTANCE,
    (_PRESENT, State.DESTROYING, _WHOLE): Step.DESTROY_COMPUTE_INSTANCES,
    (_ABSENT, None, _NOTHING): Step.DONE,
    (_ABSENT, None, _HALF): Step.DONE,
    (_ABSENT, None, _WHOLE): Step.DONE,
    (_ABSENT, State.CREATING, _NOTHING): Step.FORGET,
    (_ABSENT, State.CREATING, _HALF): Step.GIVE_UP,
    (_ABSENT, State.CREATING, _WHOLE): Step.GIVE_UP,
    (_ABSENT, State.READY, _NOTHING): Step.FORGET,
    (_ABSENT, State.READY, _HALF): Step.GIVE_UP,
    (_ABSENT, State.READY, _WHOLE): Step.GIVE_UP,
    (_ABSENT, State.DESTROYING, _NOTHING): Step.FORGET,
    (_ABSENT, State.DESTROYING, _HALF): Step.DESTROY_GPU_INSTANCE,
    (_ABSENT, State.DESTROYING, _WHOLE): Step.DESTROY_COMPUTE_INSTANCES,
}


def next_step(wanted: Wanted, recorded: State | None, found: Found) -> Step:
    """The step from here towards what is wanted."""
    return STEPS[wanted, recorded, found]
