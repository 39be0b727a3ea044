"""Decide whether a claim may be recorded in addition to the claims that are recorded already."""

from collections import ChainMap
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Capacity, Device
from dradriver.model.resource.recorded_groups import GroupsBySet
from dradriver.node.claims.conflicts import find_conflicts, find_unknowns
from dradriver.node.claims.lookup import AllocatedClaim
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.errors import ClaimError, DeviceInUseError
from dradriver.node.state.recorded_offers import RecordedOffer
from dradriver.node.state.records import ClaimRecord, CounterSets, HoldingClaim, RecordedDevice, encode_record
from dradriver.node.state.rows import Rows

__all__ = ["Acceptance"]

_Capacities: TypeAlias = dict[tuple[str, str], Mapping[str, Capacity]]


class Acceptance:
    """Checks each claim in the transaction that records it, so that two conflicting claims cannot both pass.

    The transaction also stores the driver's current devices. If the driver no longer offers a device, later
    checks, in this or another process, use the stored data of the device.

    Args:
        driver: the driver's name.
        inventory: the discovered devices.
    """

    def __init__(self, driver: str, inventory: DiscoveredDevices) -> None:
        self._driver = driver
        self._inventory = inventory
        self._offered_devices: Mapping[tuple[str, str], Device] = {}
        self._offer = RecordedOffer({}, {})
        self._holders: dict[str, tuple[ClaimRecord, HoldingClaim]] = {}

    def check(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        """Check a claim, and return its record with the counters that its devices consume.

        Raises:
            DeviceInUseError: the claim conflicts with recorded claims.
            ClaimError: too little is known about a device to exclude a conflict.
            InvalidObjectError: the driver's device has wrong types, so it cannot be recorded.
        """
        wanted = self._to_record(allocated, rows)
        encode_record(wanted)  # raises before the check if the record cannot be encoded
        holder, held, counter_sets = self._collect_inputs(wanted, rows)
        if reasons := find_conflicts(holder, held, counter_sets, self._find_capacities(wanted, rows)):
            raise DeviceInUseError("; ".join(reasons))
        if reasons := find_unknowns(holder, held, counter_sets):
            raise ClaimError("; ".join(reasons))
        self._store_offer(rows)
        return wanted

    def check_hold(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        """Check a claim that is possibly prepared already; its devices may be unknown.

        Once the claim is recorded, an unknown device blocks other claims, because it may consume any counter.

        Raises:
            DeviceInUseError: the claim conflicts with recorded claims.
        """
        wanted = self._to_record(allocated, rows)
        holder, held, counter_sets = self._collect_inputs(wanted, rows)
        if reasons := find_conflicts(holder, held, counter_sets):
            raise DeviceInUseError("; ".join(reasons))
        return wanted

    def _collect_inputs(
        self, wanted: ClaimRecord, rows: Rows
    ) -> tuple[HoldingClaim, list[HoldingClaim], CounterSets]:
        offered: dict[tuple[str, str], CounterSet] = dict(self._inventory.counter_sets)
        counter_sets = ChainMap(offered, rows.offers.counter_sets(wanted.pools))
        return wanted.to_holding_claim(self._driver), self._list_holders(rows), counter_sets

    def _list_holders(self, rows: Rows) -> list[HoldingClaim]:
        """Return the devices that the recorded claims hold; only changed records are converted again."""
        before, self._holders = self._holders, {}
        for row in rows.values():
            record, holder = before.get(row.uid, (None, None))
            if holder is None or record is not row.record:
                holder = row.record.to_holding_claim(self._driver)
            self._holders[row.uid] = (row.record, holder)
        return [holder for _, holder in self._holders.values()]

    def _to_record(self, allocated: AllocatedClaim, rows: Rows) -> ClaimRecord:
        wanted = zip(allocated.record.devices, allocated.groups, strict=True)
        devices = [self._add_consumption(device, groups, rows) for device, groups in wanted]
        return msgspec.structs.replace(allocated.record, devices=devices)

    def _add_consumption(
        self, device: RecordedDevice, groups: GroupsBySet | None, rows: Rows
    ) -> RecordedDevice:
        known = self._inventory.device(device.pool, device.device)
        known = known or rows.offers.device(device.pool, device.device)
        if known is None:
            return device
        consumes = known.consumes_counters
        if groups is not None:
            # The scheduler used these groups for the allocation. They replace the groups that the driver
            # declares now.
            consumes = tuple(
                msgspec.structs.replace(each, compatibility_groups=groups.get(each.counter_set, ()))
                for each in consumes
            )
        return msgspec.structs.replace(device, consumes=consumes, consumes_unknown=False)

    def _find_capacities(self, wanted: ClaimRecord, rows: Rows) -> _Capacities:
        """Return the capacities of the devices that the claim uses as shares."""
        capacities: _Capacities = {}
        for each in wanted.devices:
            device = self._inventory.device(each.pool, each.device) if each.share_id else None
            if each.share_id and device is None:
                device = rows.offers.device(each.pool, each.device)
            if device is not None:
                capacities[each.pool, each.device] = device.capacity
        return capacities

    def _store_offer(self, rows: Rows) -> None:
        devices = self._inventory.devices
        if devices is not self._offered_devices:
            self._offered_devices, self._offer = devices, RecordedOffer(devices, self._inventory.counter_sets)
        rows.offers.store(self._offer)
