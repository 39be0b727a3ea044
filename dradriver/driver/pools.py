"""`class PoolDriver`: the class that an author subclasses for devices that belong to no single node."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection

from dradriver.driver.source import DeviceSource, Inventory

__all__ = ["PoolDriver"]


class PoolDriver(DeviceSource):
    """Publishes pools that belong to no single node: slices of a TPU pod, devices on a fabric (KEP-4815).

    One process of the driver acts in the cluster at a time: the holder of the Lease with the driver's name. It
    runs as a Deployment, without a kubelet, and only publishes. The `Driver` of the same name prepares its
    devices on the nodes that its pools select. There, `AllocatedDevice.device` is the device as published here.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block.

    Attributes:
        name: the driver's name in the cluster, the same as that of the `Driver` on the nodes.
        rescan_seconds: seconds between calls of `discover()`. None: `discover()` runs only at start and after
            `rediscover()`.
    """

    @abstractmethod
    def discover(self) -> Inventory | Awaitable[Inventory]:
        """Return the pools that exist now.

        The SDK calls it at start, every `rescan_seconds`, and after `rediscover()`. It checks the result pool
        by pool, divides it into ResourceSlices and publishes them. If the call raises, the published pools stay
        and the SDK retries. The published pools also stay when the process ends.

        Each pool has a name and selects its nodes: with `node_selector`, with `all_nodes`, or with
        `per_device_node_selection` and a `node_name`, `node_selector` or `all_nodes` in each of its devices.
        Names must be stable, because claims refer to them. A pool that is missing from the result is withdrawn.
        An empty result withdraws everything.
        """

    def fallback(self, dropped: Collection[str]) -> Inventory | Awaitable[Inventory | None] | None:  # noqa: ARG002
        """Return the pools to publish while the API server drops some fields; None withdraws unsafe pools.

        If counters are dropped, the devices of the result must not overlap. If the devices' own node selection
        is dropped, they must be reachable from the pool's nodes.

        Args:
            dropped: JSON names of the fields that the server dropped, such as `perDeviceNodeSelection`.

        Returns:
            Pools that replace those with the same names.
        """
        return None
