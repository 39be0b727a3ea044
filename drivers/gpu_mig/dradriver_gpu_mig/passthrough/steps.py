"""Table that gives the next step for a GPU from its desired, recorded and observed driver.

Each step changes either the record or one PCI function. The record and all functions are read again afterwards.
If the process dies after a step, the next process continues with the next step:

| the process dies after | left behind | the next process |
|---|---|---|
| RECORD_CREATING | a record, no function changed | deletes the record, or binds |
| BIND, after `driver_override` | the function has its driver and an override | clears it, or unbinds |
| BIND, after `unbind` | the function has no driver | returns it to its driver, or binds |
| BIND, after `drivers_probe` | the function is bound to vfio-pci | returns it, or binds the next |
| RECORD_READY | the GPU is passed, its claim is prepared | leaves it until its claim ends |
| RECORD_DESTROYING | the GPU is passed | returns it |
| RETURN, after any write | functions with different drivers | returns the rest |
| DELETE_RECORD | nothing | has nothing to do |

A reboot ends all overrides, and each function gets its own driver again. The records of another boot are
ignored.
"""

import enum
from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.instances import RecordState

__all__ = ["STEPS", "DesiredDriver", "ObservedDriver", "PassthroughStep", "next_step"]


class DesiredDriver(enum.Enum):
    """Driver that the GPU's functions must have."""

    VFIO = enum.auto()
    HOST = enum.auto()


class ObservedDriver(enum.Enum):
    """Driver that the GPU's functions have."""

    HOST = enum.auto()  # each function has its own driver, or is gone
    MIXED = enum.auto()
    VFIO = enum.auto()  # all functions have vfio-pci


class PassthroughStep(enum.Enum):
    """One change to the record or to a function, or the end of the work."""

    RECORD_CREATING = "record the intent and the functions' drivers"
    BIND = "bind a function to vfio-pci"
    RECORD_READY = "record that it is passed"
    RECORD_DESTROYING = "record that it is to be returned"
    RETURN = "return a function to its driver"
    DELETE_RECORD = "delete the record"
    REJECT = "reject a GPU that another program passes"
    DONE = "nothing"


_VFIO, _HOST = DesiredDriver.VFIO, DesiredDriver.HOST
_ON_HOST, _MIXED, _ON_VFIO = ObservedDriver.HOST, ObservedDriver.MIXED, ObservedDriver.VFIO

STEPS: Final[Mapping[tuple[DesiredDriver, RecordState | None, ObservedDriver], PassthroughStep]] = {
    (_VFIO, None, _ON_HOST): PassthroughStep.RECORD_CREATING,
    (_VFIO, None, _MIXED): PassthroughStep.REJECT,
    (_VFIO, None, _ON_VFIO): PassthroughStep.REJECT,
    (_VFIO, RecordState.CREATING, _ON_HOST): PassthroughStep.BIND,
    (_VFIO, RecordState.CREATING, _MIXED): PassthroughStep.BIND,
    (_VFIO, RecordState.CREATING, _ON_VFIO): PassthroughStep.RECORD_READY,
    # An administrator returned functions by hand. They are bound again for the claim.
    (_VFIO, RecordState.READY, _ON_HOST): PassthroughStep.BIND,
    (_VFIO, RecordState.READY, _MIXED): PassthroughStep.BIND,
    (_VFIO, RecordState.READY, _ON_VFIO): PassthroughStep.DONE,
    # If the return has started, it is completed first.
    (_VFIO, RecordState.DESTROYING, _ON_HOST): PassthroughStep.DELETE_RECORD,
    (_VFIO, RecordState.DESTROYING, _MIXED): PassthroughStep.RETURN,
    (_VFIO, RecordState.DESTROYING, _ON_VFIO): PassthroughStep.RETURN,
    # Without a record, a GPU is never changed.
    (_HOST, None, _ON_HOST): PassthroughStep.DONE,
    (_HOST, None, _MIXED): PassthroughStep.DONE,
    (_HOST, None, _ON_VFIO): PassthroughStep.DONE,
    (_HOST, RecordState.CREATING, _ON_HOST): PassthroughStep.DELETE_RECORD,
    (_HOST, RecordState.CREATING, _MIXED): PassthroughStep.RECORD_DESTROYING,
    (_HOST, RecordState.CREATING, _ON_VFIO): PassthroughStep.RECORD_DESTROYING,
    (_HOST, RecordState.READY, _ON_HOST): PassthroughStep.DELETE_RECORD,
    (_HOST, RecordState.READY, _MIXED): PassthroughStep.RECORD_DESTROYING,
    (_HOST, RecordState.READY, _ON_VFIO): PassthroughStep.RECORD_DESTROYING,
    (_HOST, RecordState.DESTROYING, _ON_HOST): PassthroughStep.DELETE_RECORD,
    (_HOST, RecordState.DESTROYING, _MIXED): PassthroughStep.RETURN,
    (_HOST, RecordState.DESTROYING, _ON_VFIO): PassthroughStep.RETURN,
}


def next_step(
    desired: DesiredDriver, recorded: RecordState | None, observed: ObservedDriver
) -> PassthroughStep:
    """Return the next step towards the desired driver.

    Args:
        desired: driver that the claim needs.
        recorded: state of the record; None: no record exists.
        observed: driver of the functions.
    """
    return STEPS[desired, recorded, observed]
