"""A claim as a driver sees it: its own devices of it, with their configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dradriver.driver.config import Config
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.device import Device

__all__ = ["AllocatedDevice", "Claim"]

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device that a claim got; equal and hashed by request, pool, name and share.

    Attributes:
        request: the request that it answers; `request/subrequest` for a `firstAvailable` alternative.
        pool: its pool.
        name: its name in the pool.
        share_id: which share of a device with multiple allocations; empty otherwise.
        admin_access: the claim only looks: the device may be in use by another claim at the same time.
        consumed_capacity: what this share takes of the device's capacities.
        configs: decoded configuration that applies, in order: classes first, then the claim; later wins.
        device: the device as `discover()` last returned it, None if it is gone.
    """

    request: str
    pool: str
    name: str
    share_id: str = ""
    admin_access: bool = field(default=False, compare=False)
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict, compare=False)
    configs: tuple[Config, ...] = field(default=(), compare=False)
    device: Device | None = field(default=None, compare=False)

    def config(self, kind: type[C]) -> C | None:
        """The last configuration of this kind, the one that wins; None when there is none."""
        return next((c for c in reversed(self.configs) if isinstance(c, kind)), None)

    def id(self, driver: str) -> DeviceId:
        """The device's name in the whole cluster."""
        return DeviceId(driver, self.pool, self.name, self.share_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that is prepared or unprepared on this node.

    Attributes:
        uid: identifies the claim for all time; names are used again.
        namespace, name: where it is found.
        devices: the devices of this driver, in the allocation's order; those of other drivers are left out.
    """

    uid: str
    namespace: str
    name: str
    devices: tuple[AllocatedDevice, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"
