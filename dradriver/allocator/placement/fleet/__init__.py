"""The nodes, pools and claims of a cluster, updated by events.

Modules:

- `attribute_index`: finds the nodes that have a device with some value of an attribute.
- `blueprint`: a compiled form of a pool, which all nodes with equal pools share.
- `columns`: the values of one attribute on all devices of a slice or a pool.
- `components`: the components of pools, and the states of a component.
- `contents`: separates slices into names, values and the rest, and stores equal parts once.
- `fleet`: processes the events.
- `pools`: a pool in its present state.
- `sections`: divides a pool into its components.
- `shared_pools`: the pools that several nodes reach, and the nodes that reach them.
- `usage_index`: records which claim holds which device.
"""
