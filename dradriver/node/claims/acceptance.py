"""Decide whether a claim may be recorded beside the recorded ones, with current or recorded device data."""

from collections import ChainMap
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Capacity, Device
from dradriver.model.resource.recorded_groups import GroupsBySet
from dradriver.node.claims.conflicts import refusals, unknowns
from dradriver.node.claims.lookup import AllocatedClaim
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.errors import ClaimError, DeviceInUseError
from dradriver.node.state.device_holds import CounterSets, HoldingClaim
from dradriver.node.state.recorded_offers import RecordedOffer
from dradriver.node.state.records import ClaimRecord, RecordedDevice, encode_record
from dradriver.node.state.rows import Rows

__all__ = ["Acceptance"]

_Capacities: TypeAlias = dict[tuple[str, str], Mapping[str, Capacity]]


class Acceptance:
    """Checks claims of one driver inside the transaction that records them, so that two cannot both pass.

    The same transaction stores the driver's inventory. Later, also in another process, the devices are known as
    they were when a claim was recorded.

    Args:
        driver: the driver's name.
        inventory: the discovered devices.
    """

    def __init__(self, driver: str, inventory: DiscoveredDevices) -> None:
        self._driver = driver
        self._inventory = inventory
        self._of: Mapping[tuple[str, str], Device] = {}
        self._offer = RecordedOffer({}, {})
        self._holders: dict[str, tuple[ClaimRecord, HoldingClaim]] = {}

    def accepted(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        """Check a claim, and return its record with the counters that its devices consume.

        Raises:
            DeviceInUseError: the claim conflicts with recorded claims.
            ClaimError: too little is known about a device to exclude a conflict.
            InvalidObjectError: the driver's device has wrong types, so it cannot be recorded.
        """
        wanted = self._with_consumption(allocated, rows)
        encode_record(wanted)  # encoded before anything is compared with it
        holder, held, counter_sets = self._situation(wanted, rows)
        if reasons := refusals(holder, held, counter_sets, self._capacities(wanted, rows)):
            raise DeviceInUseError("; ".join(reasons))
        if reasons := unknowns(holder, held, counter_sets):
            raise ClaimError("; ".join(reasons))
        self._keep(rows)
        return wanted

    def held(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        """Check a claim that may be prepared already; an unknown device of it keeps other claims away.

        Raises:
            DeviceInUseError: the claim conflicts with recorded claims.
        """
        wanted = self._with_consumption(allocated, rows)
        holder, held, counter_sets = self._situation(wanted, rows)
        if reasons := refusals(holder, held, counter_sets):
            raise DeviceInUseError("; ".join(reasons))
        return wanted

    def _situation(
        self, wanted: ClaimRecord, rows: Rows
    ) -> tuple[HoldingClaim, list[HoldingClaim], CounterSets]:
        offered: dict[tuple[str, str], CounterSet] = dict(self._inventory.counter_sets)
        counter_sets = ChainMap(offered, rows.offers.counter_sets(wanted.pools))
        return wanted.holder(self._driver), self._held(rows), counter_sets

    def _held(self, rows: Rows) -> list[HoldingClaim]:
        """Return the devices that the recorded claims hold; computed again only for changed claims."""
        before, self._holders = self._holders, {}
        for row in rows.each():
            record, holder = before.get(row.uid, (None, None))
            if holder is None or record is not row.record:
                holder = row.record.holder(self._driver)
            self._holders[row.uid] = (row.record, holder)
        return [holder for _, holder in self._holders.values()]

    def _with_consumption(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        wanted = zip(allocated.record.devices, allocated.groups, strict=True)
        devices = [self._consuming(device, groups, rows) for device, groups in wanted]
        return msgspec.structs.replace(allocated.record, devices=devices)

    def _consuming(self, device: RecordedDevice, groups: GroupsBySet | None, rows: Rows) -> RecordedDevice:
        known = self._inventory.device(device.pool, device.device)
        known = known or rows.offers.device(device.pool, device.device)
        if known is None:
            return device
        consumes = known.consumes_counters
        if groups is not None:
            # The scheduler used these values for the allocation. They win over what the driver declares now.
            consumes = tuple(
                msgspec.structs.replace(each, compatibility_groups=groups.get(each.counter_set, ()))
                for each in consumes
            )
        return msgspec.structs.replace(device, consumes=consumes, consumes_unknown=False)

    def _capacities(self, wanted: ClaimRecord, rows: Rows) -> _Capacities:
        """Return the capacities of the devices that the claim uses as shares."""
        found: _Capacities = {}
        for each in wanted.devices:
            device = self._inventory.device(each.pool, each.device) if each.share_id else None
            if each.share_id and device is None:
                device = rows.offers.device(each.pool, each.device)
            if device is not None:
                found[each.pool, each.device] = device.capacity
        return found

    def _keep(self, rows: Rows) -> None:
        devices = self._inventory.devices
        if devices is not self._of:
            self._of, self._offer = devices, RecordedOffer(devices, self._inventory.counter_sets)
        rows.offers.keep(self._offer)
