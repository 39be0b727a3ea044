"""Finds changes of a pool that must wait because a claim holds a device.

Modules:

- `pin_devices`: looks up the claims and applies the rules to a decision.
- `pinned_changes`: the rules that decide which devices and counter sets stay as they are published (pure).
- `published_counters`: records the counters from which allocations were made.
- `allocation_lookup`: looks up which claims hold which devices.
"""
