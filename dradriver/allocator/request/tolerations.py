"""Matches the taints of devices with the tolerations of requests (KEP-5055)."""

from collections.abc import Sequence

from dradriver.model.resource.claim import DeviceToleration
from dradriver.model.resource.device import Device, Taint

__all__ = ["repelling_taint", "tolerates"]


def tolerates(toleration: DeviceToleration, taint: Taint) -> bool:
    """Return whether the toleration tolerates the taint. An empty key or effect matches every key or effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def repelling_taint(device: Device, tolerations: Sequence[DeviceToleration]) -> Taint | None:
    """Return the first taint with effect NoSchedule or NoExecute that the request does not tolerate."""
    for taint in device.taints:
        if taint.effect != "None" and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
