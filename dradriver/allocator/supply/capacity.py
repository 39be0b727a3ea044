"""Computes the capacity that one share of a device consumes (KEP-5075).

A request names amounts of some capacities. The *consumed capacity* of each capacity of the device follows from
that amount, rounded up as the capacity's request policy requires. Without a requested amount it is the policy's
default, or else the whole capacity. An amount that breaks the policy excludes the device. An amount that can't
be computed is an error of the claim or the driver, on any device.

Source: `CapacityRequestPolicy` of resource.k8s.io/v1, `consumable_capacity.go` of Kubernetes' allocator.
"""

from collections.abc import Mapping
from typing import Final

from dradriver.errors import DraError
from dradriver.model.quantity import NANO, Quantity
from dradriver.model.resource.device import Capacity, CapacityRequestPolicy, CapacityRequestPolicyRange

__all__ = ["CapacityError", "consumed_capacity", "obeys_policy"]

_LARGEST: Final = 2**63 - 1
_MILLI: Final = NANO // 1000


class CapacityError(DraError):
    """An amount can't be computed: it is negative, or too large for Kubernetes' integers."""


def consumed_capacity(
    wanted: Mapping[str, Quantity], capacities: Mapping[str, Capacity], *, fractional: bool
) -> dict[str, Quantity]:
    """Return the amount that a share consumes of each capacity of a device.

    Args:
        wanted: the requested amounts; the device has each of these capacities.
        capacities: the capacities of the device.
        fractional: whether steps may be smaller than one (DRAFractionalCapacityRange).

    Raises:
        CapacityError: an amount is too large to be rounded, or negative.
    """
    found = {}
    for name, capacity in capacities.items():
        amount = _consumed(name, wanted.get(name), capacity, fractional=fractional)
        if amount.nano < 0:
            raise CapacityError(f"capacity {name}: {amount} is negative")
        found[name] = amount
    return found


def _consumed(name: str, wanted: Quantity | None, capacity: Capacity, *, fractional: bool) -> Quantity:
    policy = capacity.request_policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded(name, wanted, policy.valid_range, fractional=fractional)
    return next((value for value in policy.valid_values if wanted <= value), wanted)


def _rounded(name: str, wanted: Quantity, allowed: CapacityRequestPolicyRange, *, fractional: bool) -> Quantity:
    """Return the amount, rounded up to the minimum plus a whole number of steps."""
    least, step = allowed.min, allowed.step
    if least is not None and wanted < least:
        return least
    if least is None or step is None:
        return wanted
    unit = _unit(allowed, fractional=fractional)
    start, width = _up(least, unit), _up(step, unit)
    if width <= 0:
        raise CapacityError(f"capacity {name}: the step {step} of the valid range is not positive")
    if unit == _MILLI and wanted.nano % unit:
        raise CapacityError(f"capacity {name}: {wanted} can't be represented in thousandths")
    amount = start - (start - _up(wanted, unit)) // width * width
    if max(amount, _up(wanted, unit)) > _LARGEST:
        raise CapacityError(f"capacity {name}: {wanted}, rounded up to a step of {step}, can't be represented")
    return step - step + Quantity.parse(f"{amount * unit}n")  # in the format of the step


def obeys_policy(amount: Quantity, policy: CapacityRequestPolicy | None, *, fractional: bool) -> bool:
    """Return whether the policy allows a share with this amount."""
    if policy is None or amount == policy.default:
        return True
    if policy.valid_range is not None:
        return _in_range(amount, policy.valid_range, fractional=fractional)
    return not policy.valid_values or amount in policy.valid_values


def _in_range(amount: Quantity, allowed: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    if allowed.max is not None and amount > allowed.max:
        return False
    if allowed.step is None or allowed.min is None:
        return True
    unit = _unit(allowed, fractional=fractional)
    if unit == _MILLI and amount.nano % unit:
        return False
    width = _up(allowed.step, unit)
    return width > 0 and (_up(amount, unit) - _up(allowed.min, unit)) % width == 0


def _unit(allowed: CapacityRequestPolicyRange, *, fractional: bool) -> int:
    """Return the unit of the range in nanos.

    It is a thousandth if `fractional` is set and all numbers of the range allow this, else one.
    """
    numbers = [each for each in (allowed.min, allowed.max, allowed.step) if each is not None]
    fits = all(each.nano % _MILLI == 0 and abs(each.nano // _MILLI) <= _LARGEST for each in numbers)
    return _MILLI if fractional and fits and (allowed.step is None or allowed.step.nano >= _MILLI) else NANO


def _up(amount: Quantity, unit: int) -> int:
    return -(-amount.nano // unit)
