"""The published pools of devices, for the scheduler and for operators.

| module          | contents                                                       |
|-----------------|----------------------------------------------------------------|
| `pool_index`    | finds the slices of each pool                                  |
| `controller`    | the pool controller, which reports pools that no claim can use |
| `class_devices` | counts the devices of a class that a node reaches              |
"""
