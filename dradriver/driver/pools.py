"""`class PoolDriver`: what an author of devices that belong to no single node writes."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection

from dradriver.driver.source import DeviceSource, Inventory

__all__ = ["PoolDriver"]


class PoolDriver(DeviceSource):
    """Publishes pools that belong to no single node: slices of a TPU pod, devices on a fabric (KEP-4815).

    One process of it acts in the cluster at a time, the one that holds the Lease of its name. It runs as a
    Deployment, beside no kubelet, and only publishes. What it offers is prepared by the `Driver` of the
    same name on the nodes that its pools select: there `AllocatedDevice.device` is the device as published
    here.

    Any method may be `async def` or plain `def`; a plain one runs in a worker thread, so it may block.

    Attributes:
        name: the driver's name in the cluster, the same as that of the `Driver` on the nodes.
        rescan_seconds: how often `discover()` is called without being asked; None: only when asked.
    """

    @abstractmethod
    def discover(self) -> Inventory | Awaitable[Inventory]:
        """The pools that exist now; called at start, every `rescan_seconds`, and after `rediscover()`.

        Each has a name and says its nodes: `node_selector`, `all_nodes`, or `per_device_node_selection` with
        a `node_name`, `node_selector` or `all_nodes` in each of its devices. Names must be stable, because
        claims refer to them. Pools that are left out are withdrawn: none at all withdraws everything. An
        exception keeps what is published and is retried. The SDK checks the result, pool by pool, cuts it into
        ResourceSlices and publishes; what is published stays when the process ends.
        """

    def fallback(self, dropped: Collection[str]) -> Inventory | Awaitable[Inventory | None] | None:  # noqa: ARG002
        """What to publish where the API server does not store some fields; None withdraws what is unsafe.

        Args:
            dropped: JSON names of the fields that the server dropped, such as `perDeviceNodeSelection`. A pool
                is replaced by the one of its name in the answer. Devices in it must not overlap when counters
                are dropped, and are reached from the pool's nodes when their own are.
        """
        return None
