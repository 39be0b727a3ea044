"""Computes how far the capacities of a shared device are used (KEP-5075)."""

from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.model.resource.device import Capacity, Device

__all__ = ["has_free_share", "used_part"]


def has_free_share(device: Device, use: PoolUse) -> bool:
    """Return whether the device has capacity for another share.

    Args:
        device: a device of which claims hold shares.
        use: the devices of its pool that claims hold.
    """
    if not device.shareable or device.name in use.exclusive:
        return False
    consumed = use.consumed.get(device.name, {})
    return all(
        capacity.value.nano - consumed.get(name, 0) >= _smallest_share(capacity)
        for name, capacity in device.capacity.items()
    )


def used_part(device: Device, use: PoolUse) -> float:
    """Return the part of the device that claims hold, from 0 to 1: 1 if it is held as a whole.

    Args:
        device: a device that claims hold.
        use: the devices of its pool that claims hold.
    """
    if not device.shareable or device.name in use.exclusive:
        return 1.0
    consumed = use.consumed.get(device.name, {})
    parts = [
        consumed.get(name, 0) / capacity.value.nano
        for name, capacity in device.capacity.items()
        if capacity.value.nano
    ]
    return min(1.0, max(parts, default=1.0))


def _smallest_share(capacity: Capacity) -> int:
    """Return the smallest amount that a share can consume, in nanos."""
    policy = capacity.request_policy
    if policy is not None and policy.valid_range is not None and policy.valid_range.min is not None:
        return policy.valid_range.min.nano
    if policy is not None and policy.valid_values:
        return min(value.nano for value in policy.valid_values)
    return 1
