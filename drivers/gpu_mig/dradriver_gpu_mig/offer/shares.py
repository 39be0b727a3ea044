"""Shares of devices: several claims have a device at the same time (KEP-5075, consumable capacity).

The values of the setting, and the request policies, are those of NVIDIA's driver, so that claims for its shares
also work here.
"""

from typing import Final

from msgspec.structs import replace

import dradriver as dra

__all__ = ["offer_shares"]

_MIB: Final = 1 << 20


def offer_shares(device: dra.Device, shares: str | int) -> dra.Device:
    """Return a device that several claims may have; the device itself if shares are disabled.

    Each claim takes a part of the capacity `memory`, and with a number of shares also of the capacity `shares`.

    Args:
        device: the device, with the capacity `memory`.
        shares: `disabled`; `memory`: a claim has all memory unless it requests less; `unlimited`: a claim has
            no memory unless it requests some; a number: the same, and each claim has one of so many shares.
    """
    if shares == "disabled":
        return device
    total = int(device.capacity["memory"].value) // _MIB
    is_by_memory = shares == "memory"
    memory = _range(f"{total}Mi" if is_by_memory else 0, "1Mi" if is_by_memory else 0, f"{total}Mi", "1Mi")
    capacity = {name: _not_consumed(each) for name, each in device.capacity.items()}
    capacity["memory"] = dra.Capacity(f"{total}Mi", memory)
    if isinstance(shares, int):
        capacity["shares"] = dra.Capacity(shares, _range(1, 1, shares, 1))
    return replace(device, capacity=capacity, allow_multiple_allocations=True)


def _not_consumed(capacity: dra.Capacity) -> dra.Capacity:
    """Return a capacity of which a claim takes nothing, unless it requests some.

    Kubernetes gives all of a capacity without a policy to the first claim, so there would be no second one. A
    capacity of nothing cannot have a policy with steps.
    """
    if not int(capacity.value):
        return capacity
    return dra.Capacity(capacity.value, _range(0, 0, capacity.value, 1))


def _range(
    default: str | int, minimum: str | int, maximum: str | int | dra.Quantity, step: str | int
) -> dra.CapacityRequestPolicy:
    valid = dra.CapacityRequestPolicyRange(
        min=dra.Quantity(minimum), max=dra.Quantity(maximum), step=dra.Quantity(step)
    )
    return dra.CapacityRequestPolicy(default=dra.Quantity(default), valid_range=valid)
