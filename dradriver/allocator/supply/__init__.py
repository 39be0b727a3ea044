"""Turns slices and held devices into the supply of a node: devices, counters, groups and capacities.

- `capacity`: the capacity that a share of a device consumes (KEP-5075).
- `compatibility`: compatibility groups as bits (KEP-5963).
- `counters`: the shared counters of a pool as integers (KEP-4815).
- `devices_in_use`: the devices and shares that claims hold.
- `node_supply`: the devices that a node reaches, and the resources that are left.
- `nodes`: which nodes reach a device, and where an allocation can be used.
- `order`: the order in which devices are tried.
- `pools`: which slices form a pool, and which pools a node can use.
"""
