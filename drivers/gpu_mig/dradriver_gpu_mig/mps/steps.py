"""Table that gives the next step for a claim's MPS daemon from its desired, recorded and observed state.

Each step changes either the record or the node. What a step changes is read again afterwards. If the process
dies at any point, the next process continues with the next step. No other code is needed for crash recovery.

A reboot ends all processes and mounts. The record then says READY and the node has nothing, so the table starts
the daemon again. Records therefore need no boot ID.
"""

import enum
from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.mps.daemon import DaemonState

__all__ = ["RECORD_STEPS", "STEPS", "DaemonStep", "DesiredDaemon", "ObservedDaemon", "next_step"]


class DesiredDaemon(enum.Enum):
    """State that the claim needs."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


class ObservedDaemon(enum.Enum):
    """State of the daemon on the node."""

    NOTHING = enum.auto()
    MOUNTED = enum.auto()  # its shared memory is mounted, and it has no process
    RUNNING = enum.auto()  # it has processes, and does not answer
    ANSWERING = enum.auto()


class DaemonStep(enum.Enum):
    """One change to the record or the node, or the end of the work."""

    RECORD_STARTING = "record the intent"
    MOUNT = "mount the shared memory"
    START = "start the daemon"
    FINISH = "send the limits to the daemon and record that it is ready"
    RECORD_STOPPING = "record that it is to be stopped"
    STOP = "stop the daemon"
    KILL = "kill the processes"
    UNMOUNT = "unmount the shared memory"
    DELETE = "delete the folders, the cgroup and the record"
    DONE = "nothing"


RECORD_STEPS: Final = frozenset({DaemonStep.RECORD_STARTING, DaemonStep.FINISH, DaemonStep.RECORD_STOPPING})
"""The steps that leave the observed state as it is."""

_PRESENT, _ABSENT = DesiredDaemon.PRESENT, DesiredDaemon.ABSENT
_NOTHING, _MOUNTED, _RUNNING, _ANSWERING = ObservedDaemon
_STARTING, _READY, _STOPPING = DaemonState

_STOP_STEPS: Final = {
    _NOTHING: DaemonStep.DELETE,
    _MOUNTED: DaemonStep.UNMOUNT,
    _RUNNING: DaemonStep.KILL,
    _ANSWERING: DaemonStep.STOP,
}

STEPS: Final[Mapping[tuple[DesiredDaemon, DaemonState | None, ObservedDaemon], DaemonStep]] = {
    (_PRESENT, None, _NOTHING): DaemonStep.RECORD_STARTING,
    (_PRESENT, None, _MOUNTED): DaemonStep.RECORD_STARTING,
    # Nothing says with which settings these processes were started.
    (_PRESENT, None, _RUNNING): DaemonStep.KILL,
    (_PRESENT, None, _ANSWERING): DaemonStep.KILL,
    (_PRESENT, _STARTING, _NOTHING): DaemonStep.MOUNT,
    (_PRESENT, _STARTING, _MOUNTED): DaemonStep.START,
    (_PRESENT, _STARTING, _RUNNING): DaemonStep.KILL,
    # The limits may have been sent before. Sending them again has the same result.
    (_PRESENT, _STARTING, _ANSWERING): DaemonStep.FINISH,
    # The daemon died or hangs, or the node was rebooted. It is started again from its record.
    (_PRESENT, _READY, _NOTHING): DaemonStep.RECORD_STARTING,
    (_PRESENT, _READY, _MOUNTED): DaemonStep.RECORD_STARTING,
    (_PRESENT, _READY, _RUNNING): DaemonStep.RECORD_STARTING,
    (_PRESENT, _READY, _ANSWERING): DaemonStep.DONE,
    (_ABSENT, None, _NOTHING): DaemonStep.DONE,
    (_ABSENT, None, _MOUNTED): DaemonStep.UNMOUNT,
    (_ABSENT, None, _RUNNING): DaemonStep.KILL,
    (_ABSENT, None, _ANSWERING): DaemonStep.KILL,
    **{
        (_ABSENT, state, observed): DaemonStep.RECORD_STOPPING
        for state in (_STARTING, _READY)
        for observed in ObservedDaemon
    },
    # If the stop has started, it is completed first.
    **{
        (desired, _STOPPING, observed): step
        for desired in DesiredDaemon
        for observed, step in _STOP_STEPS.items()
    },
}


def next_step(desired: DesiredDaemon, recorded: DaemonState | None, observed: ObservedDaemon) -> DaemonStep:
    """Return the next step towards the desired state.

    Args:
        desired: state that the claim needs.
        recorded: state of the record; None: no record exists.
        observed: state of the daemon on the node.
    """
    return STEPS[desired, recorded, observed]
