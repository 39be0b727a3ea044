"""`class DriverContext`: the services that the SDK offers to a running driver."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.health import NodeReport
from dradriver.driver.prepared import DeviceMetadata
from dradriver.errors import DriverError

__all__ = ["DriverContext", "MetadataUpdate"]

MetadataUpdate: TypeAlias = Mapping[AllocatedDevice, DeviceMetadata] | Mapping[tuple[str, str], DeviceMetadata]
"""New metadata by device, given as in the claim or as `(pool, name)`; other devices keep their metadata."""


class DriverContext:
    """The node, the data folder and the services of the SDK.

    The SDK creates one for each process and passes it to `DeviceSource.set_context` before the first call. The
    methods of `Driver` with the same names delegate to it.

    Use this class itself in tests that call a driver without the SDK: requests do nothing, and operations that
    need an SDK raise an error. Such a test overrides the methods that it observes.

    Args:
        node_name: the node that the process runs on. Empty for a `PoolDriver`.
        data_dir: an existing folder for the driver's own files. Unused for a `PoolDriver`.
    """

    def __init__(self, node_name: str = "", data_dir: Path = Path()) -> None:
        self.node_name = node_name
        self.data_dir = data_dir

    def rediscover(self) -> None:
        """Ask the SDK to call `discover()` soon; from any thread or task."""

    def restart(self, reason: str) -> None:
        """Ask the SDK to end this process as failed; from any thread.

        Args:
            reason: one sentence for users.
        """

    def warn(self, claim: Claim, message: str) -> None:
        """Write a warning Event of a claim; from any thread or task. See `Driver.warn`.

        Args:
            claim: the claim.
            message: one sentence for users.
        """

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the content of a ConfigMap, by key.

        Args:
            namespace: the namespace of the ConfigMap.
            name: the name of the ConfigMap.

        Raises:
            DraError: it does not exist, the driver may not read it, or the driver does not run.
        """
        raise DriverError(f"ConfigMap {namespace}/{name} cannot be read: the driver does not run")

    async def update_metadata(self, claim_uid: str, devices: MetadataUpdate) -> None:
        """Replace the metadata of devices of a prepared claim; see `Driver.update_metadata`.

        Args:
            claim_uid: the UID of the claim.
            devices: the new metadata, by device.

        Raises:
            DraError: in the cases of `Driver.update_metadata`, or if the driver does not run.
        """
        count = len(devices)
        raise DriverError(
            f"claim UID {claim_uid}: metadata of {count} devices cannot be updated: the driver does not run"
        )

    async def node_reports(self) -> Mapping[str, NodeReport]:
        """Return the reports of the nodes, by node; see `BindingDriver.node_reports`.

        Raises:
            DraError: in the cases of `BindingDriver.node_reports`, or if the driver does not run.
        """
        raise DriverError("reports of nodes cannot be read: the driver does not run with `node_releases`")
