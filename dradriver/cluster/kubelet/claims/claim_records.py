"""The kubelet's records of claims on its node, and their checkpoint file."""

import json
import logging
import os
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dradriver.cluster.kubelet.plugins.plugin import ClaimToPrepare

__all__ = ["CheckpointedClaim", "CheckpointedDevice", "encode_records", "load_records", "write_checkpoint"]

_log = logging.getLogger(__name__)


class CheckpointedDevice(msgspec.Struct, frozen=True):
    """A prepared device of a claim."""

    pool: str
    device: str
    share_id: str
    requests: list[str]
    cdi_devices: list[str]

    def serves(self, request: str) -> bool:
        """Return whether a container that names this request of the claim gets the device.

        An empty request means all requests of the claim.
        """
        return not request or not self.requests or request in self.requests


class CheckpointedClaim(msgspec.Struct):
    """A claim that pods of this node use.

    Attributes:
        uid, namespace, name: UID, namespace and name of the claim.
        pods: UIDs of the pods that use the claim.
        drivers: the prepared devices by driver. Every driver of the allocation has an entry, even before it has
            prepared a device.
        prepared: whether the claim was prepared in this run of the kubelet. This value is not saved, so the
            claim is prepared again after a restart.
        unpreparing: whether unprepare has begun. If so, no other pod may start to use the claim. This value is
            not saved.
    """

    uid: str
    namespace: str
    name: str
    pods: list[str]
    drivers: dict[str, list[CheckpointedDevice]]
    prepared: bool = False
    unpreparing: bool = False

    @property
    def ref(self) -> ClaimToPrepare:
        """Return the reference that prepare calls use for the claim."""
        return ClaimToPrepare(self.namespace, self.uid, self.name)


class _SavedClaim(msgspec.Struct):
    uid: str
    namespace: str
    name: str
    pods: list[str]
    drivers: dict[str, list[CheckpointedDevice]]


def encode_records(records: Iterable[CheckpointedClaim]) -> str:
    """Return the checkpoint's text."""
    kept = [_SavedClaim(each.uid, each.namespace, each.name, each.pods, each.drivers) for each in records]
    data = msgspec.json.encode(kept).decode()
    return json.dumps({"checksum": zlib.crc32(data.encode()), "data": data})


def write_checkpoint(path: Path, text: str) -> None:
    """Write the checkpoint atomically, and sync it to disk.

    Raises:
        OSError: the checkpoint can't be written, for example because the disk is full. The earlier checkpoint
            still exists.
    """
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_records(path: Path) -> list[CheckpointedClaim]:
    """Read the checkpoint; return an empty list if no file exists.

    If the file can't be read, it is renamed and logged. Claims of pods that still run are then prepared again.
    Drivers answer these calls without a second preparation.
    """
    try:
        outer = json.loads(path.read_text())
        data = str(outer["data"])
        if zlib.crc32(data.encode()) != outer["checksum"]:
            raise ValueError("checksum does not match")  # noqa: TRY301 - one handler for all that can be wrong
        kept = msgspec.json.decode(data, type=list[_SavedClaim])
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        aside = path.with_name(f"{path.name}.unreadable-{time.time_ns()}")
        path.replace(aside)
        _log.warning("claim checkpoint %s can't be read (%s): set aside as %s", path, error, aside.name)
        return []
    return [CheckpointedClaim(each.uid, each.namespace, each.name, each.pods, each.drivers) for each in kept]
