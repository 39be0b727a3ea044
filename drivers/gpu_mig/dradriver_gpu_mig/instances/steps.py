"""Table that gives the next step for a device from its desired, recorded and observed state.

Each step changes either the record or the hardware. What a step changes is read again afterwards. If the
process dies at any point, the next process continues with the next step. No other code is needed for crash
recovery.
"""

import enum
from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.instances.record import RecordState

__all__ = ["RECORD_STEPS", "STEPS", "DesiredInstance", "InstanceStep", "ObservedInstance", "next_step"]


class DesiredInstance(enum.Enum):
    """State that the claim needs."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


class ObservedInstance(enum.Enum):
    """State of the GPU instance at the placement."""

    NOTHING = enum.auto()
    INCOMPLETE = enum.auto()  # a GPU instance without a compute instance
    COMPLETE = enum.auto()
    FOREIGN = enum.auto()  # a complete instance with another MIG UUID than the recorded one


class InstanceStep(enum.Enum):
    """One change to the record or the hardware, or the end of the work."""

    RECORD_CREATING = "record the intent"
    CREATE_GPU_INSTANCE = "create the GPU instance"
    CREATE_COMPUTE_INSTANCE = "create the compute instance"
    RECORD_READY = "record that it is ready"
    RECORD_DESTROYING = "record that it is to be destroyed"
    DESTROY_COMPUTE_INSTANCES = "destroy the compute instances"
    DESTROY_GPU_INSTANCE = "destroy the GPU instance"
    DELETE_RECORD = "delete the record"
    FORGET = "delete the record of an instance that another program replaced"
    REJECT = "reject an instance of another program"
    DONE = "nothing"


RECORD_STEPS: Final = frozenset(
    {
        InstanceStep.RECORD_CREATING,
        InstanceStep.RECORD_READY,
        InstanceStep.RECORD_DESTROYING,
        InstanceStep.DELETE_RECORD,
        InstanceStep.FORGET,
    }
)
"""The steps that change only the record."""

_PRESENT, _ABSENT = DesiredInstance.PRESENT, DesiredInstance.ABSENT
_NOTHING, _INCOMPLETE, _COMPLETE, _FOREIGN = ObservedInstance

STEPS: Final[Mapping[tuple[DesiredInstance, RecordState | None, ObservedInstance], InstanceStep]] = {
    (_PRESENT, None, _NOTHING): InstanceStep.RECORD_CREATING,
    (_PRESENT, None, _INCOMPLETE): InstanceStep.REJECT,
    (_PRESENT, None, _COMPLETE): InstanceStep.REJECT,
    (_PRESENT, RecordState.CREATING, _NOTHING): InstanceStep.CREATE_GPU_INSTANCE,
    (_PRESENT, RecordState.CREATING, _INCOMPLETE): InstanceStep.CREATE_COMPUTE_INSTANCE,
    (_PRESENT, RecordState.CREATING, _COMPLETE): InstanceStep.RECORD_READY,
    # A reset of the GPU destroyed the instance and its contents, so the instance can be created again. The
    # record loses its MIG UUID first, because the new MIG device may have another one.
    (_PRESENT, RecordState.READY, _NOTHING): InstanceStep.RECORD_CREATING,
    (_PRESENT, RecordState.READY, _INCOMPLETE): InstanceStep.RECORD_CREATING,
    (_PRESENT, RecordState.READY, _COMPLETE): InstanceStep.DONE,
    # If the destruction has started, it is completed first, because part of the instance may already be
    # destroyed.
    (_PRESENT, RecordState.DESTROYING, _NOTHING): InstanceStep.DELETE_RECORD,
    (_PRESENT, RecordState.DESTROYING, _INCOMPLETE): InstanceStep.DESTROY_GPU_INSTANCE,
    (_PRESENT, RecordState.DESTROYING, _COMPLETE): InstanceStep.DESTROY_COMPUTE_INSTANCES,
    (_ABSENT, None, _NOTHING): InstanceStep.DONE,
    (_ABSENT, None, _INCOMPLETE): InstanceStep.DONE,
    (_ABSENT, None, _COMPLETE): InstanceStep.DONE,
    (_ABSENT, RecordState.CREATING, _NOTHING): InstanceStep.DELETE_RECORD,
    (_ABSENT, RecordState.CREATING, _INCOMPLETE): InstanceStep.RECORD_DESTROYING,
    (_ABSENT, RecordState.CREATING, _COMPLETE): InstanceStep.RECORD_DESTROYING,
    (_ABSENT, RecordState.READY, _NOTHING): InstanceStep.DELETE_RECORD,
    (_ABSENT, RecordState.READY, _INCOMPLETE): InstanceStep.RECORD_DESTROYING,
    (_ABSENT, RecordState.READY, _COMPLETE): InstanceStep.RECORD_DESTROYING,
    (_ABSENT, RecordState.DESTROYING, _NOTHING): InstanceStep.DELETE_RECORD,
    (_ABSENT, RecordState.DESTROYING, _INCOMPLETE): InstanceStep.DESTROY_GPU_INSTANCE,
    (_ABSENT, RecordState.DESTROYING, _COMPLETE): InstanceStep.DESTROY_COMPUTE_INSTANCES,
    # Our instance is gone, and the instance in its place is never changed.
    (_PRESENT, None, _FOREIGN): InstanceStep.REJECT,
    (_ABSENT, None, _FOREIGN): InstanceStep.DONE,
    **{(desired, state, _FOREIGN): InstanceStep.FORGET for desired in DesiredInstance for state in RecordState},
}


def next_step(
    desired: DesiredInstance, recorded: RecordState | None, observed: ObservedInstance
) -> InstanceStep:
    """Return the next step towards the desired state.

    Args:
        desired: state that the claim needs.
        recorded: state of the record; None: no record exists.
        observed: state of the hardware.
    """
    return STEPS[desired, recorded, observed]
