"""Pools of devices as the control plane sees them.

| module | contents |
|---|---|
| `pool_index` | all pools, with the taints of rules, computed on demand |
| `controller` | the pool controller: reports pools that no claim can use |
| `ready_pools` | nodes with devices that need no attach (KEP-5007) |
| `class_devices` | number of devices of a class that a node reaches |
"""
