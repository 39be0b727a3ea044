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
    "with_rules",
]

EVICTION_IN_PROGRESS = "EvictionInProgress"
"""Condition type of a rule: the progress of its evictions (`DeviceTaintConditionEvictionInProgress`)."""


class DeviceTaintSelector(Value, frozen=True, kw_only=True):
    """A selection of devices; an absent field matches any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Value, frozen=True, kw_only=True):
    """One taint and the devices that have it."""

    taint: Taint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRuleStatus(Value, frozen=True, kw_only=True):
    """The status of a rule that the eviction controller reports."""

    conditions: list[Condition] = []


class DeviceTaintRule(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` DeviceTaintRule."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Return whether the rule evicts from the device.

        With an empty selector it evicts from all devices, and without a selector from none.
        """
        return self.spec.device_selector is not None and self.taints(driver, pool, device)

    def taints(self, driver: str, pool: str, device: str) -> bool:
        """Return whether the rule keeps new claims away from the device.

        Without a selector it keeps them away from all devices, as in Kubernetes 1.37.
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


def with_rules(source: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints of the rules after those of its driver.

    The result is the same object if no rule applies.
    """
    spec = source.spec
    may_apply = [rule for rule in rules if _reaches(rule, spec.driver, spec.pool.name)]
    devices = [_tainted(device, spec.driver, spec.pool.name, may_apply) for device in spec.devices]
    if all(new is old for new, old in zip(devices, spec.devices, strict=True)):
        return source
    return replace(source, spec=replace(spec, devices=devices))


def _reaches(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector or DeviceTaintSelector()
    return selector.driver in {None, driver} and selector.pool in {None, pool}


def _tainted(device: Device, driver: str, pool: str, rules: Iterable[DeviceTaintRule]) -> Device:
    added = [rule.spec.taint for rule in rules if rule.taints(driver, pool, device.name)]
    return replace(device, taints=[*device.taints, *added]) if added else device
