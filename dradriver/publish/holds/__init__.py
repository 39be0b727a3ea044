"""Changes of a pool that wait while a claim holds a device.

Modules:

- `pin_devices`: looks the claims up, and applies the rules to a decision.
- `pinned_changes`: the rules: which devices and counter sets stay as they are published (pure).
- `published_counters`: the counters that allocations were made from.
- `allocation_lookup`: which claims hold which devices.
"""
