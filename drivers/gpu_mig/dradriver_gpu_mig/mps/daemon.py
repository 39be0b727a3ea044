"""Record of a claim's MPS control daemon."""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["DAEMON_VERSION", "DaemonState", "MpsDaemon", "name_daemon"]

DAEMON_VERSION: Final = 1
"""Version of the records that this version of the driver writes.

A record of a later version, or with a field that this version does not know, is neither changed nor deleted.
"""


class DaemonState(enum.Enum):
    """Progress of a recorded daemon."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class MpsDaemon(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim's MPS control daemon: what is needed to start it again, and its progress.

    Attributes:
        claim: UID of the claim.
        devices: UUIDs of GPUs, or of one MIG device.
        active_thread_percentage: default share of the SMs that one client can use, in percent; None: all.
        memory_limits: default limit of the device memory of one client: UUID of the device -> MiB.
        multi_user: whether clients of different users use the daemon at the same time.
        state: progress.
        was_ready: whether the daemon was ready before, so that containers of the claim may use it.
        version: version of the record.
    """

    claim: str
    devices: tuple[str, ...]
    active_thread_percentage: int | None = None
    memory_limits: Mapping[str, int] = {}
    multi_user: bool = False
    state: DaemonState = DaemonState.STARTING
    was_ready: bool = False
    version: int = DAEMON_VERSION

    def has_settings_of(self, other: "MpsDaemon") -> bool:
        """Return whether both records start the same daemon, whatever their progress.

        Args:
            other: the other record.
        """
        progress = {"state": other.state, "was_ready": other.was_ready, "version": other.version}
        return msgspec.structs.replace(self, **progress) == other


def name_daemon(claim: str) -> str:
    """Return the name of a claim's daemon for errors.

    Args:
        claim: UID of the claim.
    """
    return f"MPS daemon of claim {claim}"
