"""The claim that a driver receives: its own devices, with their configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dradriver.driver.configuration.config import Config
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.device import Device

__all__ = ["AllocatedDevice", "Claim"]

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One allocated device of a claim; equal and hashed by request, pool, name and share.

    Attributes:
        request: the request that it satisfies; `request/subrequest` for a `firstAvailable` alternative.
        pool: its pool.
        name: its name in the pool.
        share_id: ID of the share of a device that allows multiple allocations. Otherwise empty.
        admin_access: True: the claim only monitors; another claim may use the device at the same time.
        consumed_capacity: the part of the device's capacities that this share uses.
        configs: decoded configuration that applies, in order: classes first, then the claim. The last one wins.
        device: the device as `discover()` last returned it. None if it is gone.
        data: the JSON object in the device's entry of `status.devices`, which a `BindingDriver` sets for the
            node (`ClaimConditions.set_data`). None if there is none.
        handle: the data that a `ControllerDriver` has allocated the device with, for this driver
            (`ControllerAllocationResult.handles`), at most 16 KiB. Users can read it in the claim's status, but
            cannot change it. None if no controller has allocated the device, or the controller gave no data.
    """

    request: str
    pool: str
    name: str
    share_id: str = ""
    admin_access: bool = field(default=False, compare=False)
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict, compare=False)
    configs: tuple[Config, ...] = field(default=(), compare=False)
    device: Device | None = field(default=None, compare=False)
    data: Mapping[str, object] | None = field(default=None, compare=False)
    handle: bytes | None = field(default=None, compare=False, repr=False)

    def config(self, kind: type[C]) -> C | None:
        """Return the last configuration of this class, which wins; None if there is none.

        Args:
            kind: a class in the driver's `configs`.
        """
        return next((c for c in reversed(self.configs) if isinstance(c, kind)), None)

    def id(self, driver: str) -> DeviceId:
        """Return the device's ID, which is unique in the cluster.

        Args:
            driver: the driver's name.
        """
        return DeviceId(driver, self.pool, self.name, self.share_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that is prepared or unprepared on this node.

    Attributes:
        uid: identifies the claim permanently. Names are reused.
        namespace, name: the key of the claim in the API server.
        devices: the devices of this driver, in the order of the allocation. Devices of other drivers are
            omitted.
    """

    uid: str
    namespace: str
    name: str
    devices: tuple[AllocatedDevice, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"
