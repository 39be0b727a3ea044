"""Find what a former leader wrote late: devices that are allocated twice, and pods without their devices.

A scheduler never allocates a device twice. But the scheduler before it may have been stopped for some time, and
its last write may be stored after another process has begun to lead (`kube.leading`). The API server accepts
this write, because two allocations of one device are in two claims.

A second allocator in the cluster has the same effect. But it may bind a pod while the pod's allocation is being
reverted, and the pod then cannot start. So two allocators must not use the same pools.

| module               | contents                                                                     |
|----------------------|------------------------------------------------------------------------------|
| `double_allocations` | decides which of two claims keeps a device                                   |
| `overdrawn_counters` | decides which claim gives way if devices overdraw a counter (KEP-4815)       |
| `allocation_index`   | finds the claims that hold a device, updated by changes of claims and slices |
| `controller`         | reverts allocations, and writes an Event about each                          |
| `late_bindings`      | writes an Event about each bound pod whose claims have no devices for it     |

The scheduler neither places nor binds a pod whose claim must give way (`scheduler.pipeline`,
`scheduler.binding`). So the allocation is reverted before the pod is bound. If both pods are bound already, the
drivers on the nodes prevent that both use the device: the second prepare is refused. The drivers also refuse
shares that together exceed a device's capacity, and devices without a common compatibility group.
"""
