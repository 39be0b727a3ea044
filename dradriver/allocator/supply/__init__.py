"""Computes the supply of a node from slices and held devices: devices, counters, groups and capacities.

- `capacity`: computes the capacity that a share of a device consumes (KEP-5075).
- `compatibility`: represents compatibility groups as bits (KEP-5963).
- `counters`: represents the shared counters of a pool as integers (KEP-4815).
- `devices_in_use`: lists the devices and shares that claims hold.
- `node_supply`: computes the devices that a node reaches, and the resources that are left.
- `nodes`: decides which nodes reach a device, and on which nodes an allocation can be used.
- `order`: defines the order in which devices are tried.
- `pools`: decides which slices form a pool, and which pools a node can use.
"""
