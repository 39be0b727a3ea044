"""DeviceTaintRule: an administrator's taint on published devices (KEP-5055)."""

from collections.abc import Iterable

from msgspec.structs import replace

from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.encoding.codec import Value
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.slices import ResourceSlice

__all__ = [
    "EVICTION_IN_PROGRESS",
    "DeviceTaintRule",
    "DeviceTaintRuleSpec",
    "DeviceTaintRuleStatus",
    "DeviceTaintSelector",
    "apply_rules",
]

EVICTION_IN_PROGRESS = "EvictionInProgress"
"""Condition type for the progress of a rule's evictions (`DeviceTaintConditionEvictionInProgress`)."""


class DeviceTaintSelector(Value, frozen=True, kw_only=True):
    """A selection of devices. A field that is not set matches every device."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Value, frozen=True, kw_only=True):
    """One taint and a selection of the devices that get it."""

    taint: Taint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRuleStatus(Value, frozen=True, kw_only=True):
    """The status of a rule. The eviction controller reports it."""

    conditions: list[Condition] = []


class DeviceTaintRule(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` DeviceTaintRule."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Return whether pods that use the device are evicted by the rule.

        With an empty selector, the rule applies to all devices. Without a selector, the rule evicts no pods.
        """
        return self.spec.device_selector is not None and self.taints(driver, pool, device)

    def taints(self, driver: str, pool: str, device: str) -> bool:
        """Return whether the rule keeps new claims away from the device.

        Without a selector, the rule keeps new claims away from all devices, as in Kubernetes 1.37.
        """
        selector = self.spec.device_selector or DeviceTaintSelector()
        return all(
            wanted is None or wanted == given
            for wanted, given in (
                (selector.driver, driver),
                (selector.pool, pool),
                (selector.device, device),
            )
        )


def apply_rules(source: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints of the rules added after the taints that the driver published.

    If no rule applies, the result is `source` itself.
    """
    spec = source.spec
    may_apply = [rule for rule in rules if _can_apply(rule, spec.driver, spec.pool.name)]
    devices = [_add_taints(device, spec.driver, spec.pool.name, may_apply) for device in spec.devices]
    if all(new is old for new, old in zip(devices, spec.devices, strict=True)):
        return source
    return replace(source, spec=replace(spec, devices=devices))


def _can_apply(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector or DeviceTaintSelector()
    return selector.driver in {None, driver} and selector.pool in {None, pool}


def _add_taints(device: Device, driver: str, pool: str, rules: Iterable[DeviceTaintRule]) -> Device:
    added = [rule.spec.taint for rule in rules if rule.taints(driver, pool, device.name)]
    return replace(device, taints=[*device.taints, *added]) if added else device
