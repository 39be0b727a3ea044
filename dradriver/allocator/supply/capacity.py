"""Computes the capacity that one share of a device consumes (KEP-5075).

A request can name an amount for each capacity. The share consumes this amount, rounded up as the capacity's
request policy requires. If the request names no amount for a capacity, the share consumes the policy's default,
or the whole capacity if there is no default. If an amount breaks the policy, the device is excluded. If an
amount can't be computed, `CapacityError` is raised, because the claim or the driver has an error.

Source: `CapacityRequestPolicy` of resource.k8s.io/v1, and `consumable_capacity.go` of Kubernetes' allocator.
"""

from collections.abc import Mapping
from typing import Final

from dradriver.errors import DraError
from dradriver.model.quantity import NANO, Quantity
from dradriver.model.resource.device import Capacity, CapacityRequestPolicy, CapacityRequestPolicyRange

__all__ = ["CapacityError", "compute_consumption", "is_allowed"]

_LARGEST: Final = 2**63 - 1
_MILLI: Final = NANO // 1000


class CapacityError(DraError):
    """An amount can't be computed: it is negative, or too large for Kubernetes' integers."""


def compute_consumption(
    requested: Mapping[str, Quantity], capacities: Mapping[str, Capacity], *, fractional: bool
) -> dict[str, Quantity]:
    """Return the amount that a share consumes of each capacity of a device.

    Args:
        requested: the requested amounts. Each name must be in `capacities`.
        capacities: the capacities of the device.
        fractional: whether steps may be smaller than one (DRAFractionalCapacityRange).

    Raises:
        CapacityError: an amount is negative, or too large to be rounded.
    """
    amounts = {}
    for name, capacity in capacities.items():
        amount = _amount_of(name, requested.get(name), capacity, fractional=fractional)
        if amount.nano < 0:
            raise CapacityError(f"capacity {name}: {amount} is negative")
        amounts[name] = amount
    return amounts


def _amount_of(name: str, requested: Quantity | None, capacity: Capacity, *, fractional: bool) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(name, requested, policy.valid_range, fractional=fractional)
    return next((value for value in policy.valid_values if requested <= value), requested)


def _round_up(
    name: str, requested: Quantity, allowed: CapacityRequestPolicyRange, *, fractional: bool
) -> Quantity:
    """Round the amount up to the range's minimum plus a whole number of steps."""
    minimum, step = allowed.min, allowed.step
    if minimum is not None and requested < minimum:
        return minimum
    if minimum is None or step is None:
        return requested
    unit = _unit(allowed, fractional=fractional)
    minimum_units, step_units = _ceil_div(minimum, unit), _ceil_div(step, unit)
    if step_units <= 0:
        raise CapacityError(f"capacity {name}: the step {step} of the valid range is not positive")
    if unit == _MILLI and requested.nano % unit:
        raise CapacityError(f"capacity {name}: {requested} can't be represented in thousandths")
    amount = minimum_units - (minimum_units - _ceil_div(requested, unit)) // step_units * step_units
    if max(amount, _ceil_div(requested, unit)) > _LARGEST:
        raise CapacityError(
            f"capacity {name}: {requested}, rounded up to a step of {step}, can't be represented"
        )
    return step - step + Quantity.parse(f"{amount * unit}n")  # in the format of the step


def is_allowed(amount: Quantity, policy: CapacityRequestPolicy | None, *, fractional: bool) -> bool:
    """Return whether the policy allows a share to consume this amount."""
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
    step_units = _ceil_div(allowed.step, unit)
    return step_units > 0 and (_ceil_div(amount, unit) - _ceil_div(allowed.min, unit)) % step_units == 0


def _unit(allowed: CapacityRequestPolicyRange, *, fractional: bool) -> int:
    """Return, in nanos, the unit in which the range is computed.

    The unit is one thousandth if `fractional` is set and the numbers of the range can be written in
    thousandths, else one.
    """
    numbers = [each for each in (allowed.min, allowed.max, allowed.step) if each is not None]
    fits = all(each.nano % _MILLI == 0 and abs(each.nano // _MILLI) <= _LARGEST for each in numbers)
    return _MILLI if fractional and fits and (allowed.step is None or allowed.step.nano >= _MILLI) else NANO


def _ceil_div(amount: Quantity, unit: int) -> int:
    return -(-amount.nano // unit)
