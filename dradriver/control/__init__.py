"""The control plane, once per cluster: claims for pods, scheduling, taint eviction, and checks of pools.

Law of this package: a decision is a pure function of a snapshot of objects. It returns one step: the next
write, or the reason why there is none. One loop (`runtime.loop`) takes a key from its queue, asks for the step,
lets the executor (`runtime.executor`) carry it out, and asks again with the objects as that write left them.
Nothing has to be remembered between two writes. If the process dies after any write, the next process continues
from the objects alone.

| module | contents |
|---|---|
| `controllers` | starts the scheduler and all controllers over one set of caches |
| `settings` | the settings of scheduling |
| `scheduler` | the scheduling cycle: pipeline, binding, snapshot |
| `queueing` | attempts, queueing hints, pods that wait |
| `claims` | claims from templates, release, deletion |
| `extended` | extended resources (KEP-5004) |
| `taints` | DeviceTaintRules and eviction (KEP-5055) |
| `pools` | the pool index and the pool controller |
| `runtime` | caches, work queue, the loop, actions and their executor |

This package never imports `dradriver.cluster`. The embedded control plane runs it, and a real cluster can run
it too.
"""
