"""Table of the next step for a device, by wanted state, recorded state and found state.

Each step changes either the record or the hardware, and both are read again afterwards. If the process dies at
any point, the next process continues with the next step. This table is the whole crash recovery.
"""

import enum
from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.instances.record import State

__all__ = ["STEPS", "Found", "Step", "Wanted", "next_step"]


class Wanted(enum.Enum):
    """State that the claim needs."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


class Found(enum.Enum):
    """State that the GPU has at the place."""

    NOTHING = enum.auto()
    HALF = enum.auto()  # a GPU instance without a compute instance
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
    # A reset of the GPU destroyed the instance and its contents, so it can be created again.
    (_PRESENT, State.READY, _NOTHING): Step.MAKE_GPU_INSTANCE,
    (_PRESENT, State.READY, _HALF): Step.MAKE_COMPUTE_INSTANCE,
    (_PRESENT, State.READY, _WHOLE): Step.DONE,
    # A started destruction is completed first, because part of the instance may already be destroyed.
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
    """Return the next step from the present states towards `wanted`."""
    return STEPS[wanted, recorded, found]
