"""`class DriverContext`: what the SDK gives a driver that runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.prepared import DeviceMetadata
from dradriver.errors import DriverError

__all__ = ["DriverContext", "MetadataUpdate"]

MetadataUpdate: TypeAlias = Mapping[AllocatedDevice, DeviceMetadata] | Mapping[tuple[str, str], DeviceMetadata]
"""What to tell about devices, given as in the claim or as `(pool, name)`; those left out stay as they are."""


class DriverContext:
    """Where a driver runs, and what it may ask of the SDK.

    The SDK makes one for each process and passes it to `DeviceSource.set_context` before the first call. The
    methods of `Driver` with the same names delegate to it.

    This class itself is for tests that call a driver without the SDK: requests do nothing, and what needs an
    SDK raises an error. Such a test overrides the methods that it looks at.

    Args:
        node_name: the node that the process runs on; empty for a `PoolDriver`.
        data_dir: an existing folder for files of the driver's own; unused for a `PoolDriver`.
    """

    def __init__(self, node_name: str = "", data_dir: Path = Path()) -> None:
        self.node_name = node_name
        self.data_dir = data_dir

    def rediscover(self) -> None:
        """Asks the SDK to call `discover()` soon; from any thread or task."""

    def restart(self, reason: str) -> None:
        """Asks the SDK to end this process as failed; from any thread.

        Args:
            reason: one sentence for people.
        """

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """What a ConfigMap holds, by key.

        Args:
            namespace: of the ConfigMap.
            name: of the ConfigMap.

        Raises:
            DraError: it is not there, it must not be read, or the driver does not run.
        """
        raise DriverError(f"ConfigMap {namespace}/{name} can't be read: the driver does not run")

    async def update_metadata(self, claim_uid: str, devices: MetadataUpdate) -> None:
        """Replaces the metadata of devices of a prepared claim; see `Driver.update_metadata`.

        Args:
            claim_uid: the claim.
            devices: the new metadata, by device.

        Raises:
            DraError: as `Driver.update_metadata` says, or the driver does not run.
        """
        count = len(devices)
        raise DriverError(
            f"metadata of {count} devices of claim UID {claim_uid} can't be updated: the driver does not run"
        )
