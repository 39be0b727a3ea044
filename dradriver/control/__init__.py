"""The control plane, once per cluster: claims for pods, scheduling, taint eviction, and checks of pools.

Rule of this package: a decision is a function of objects, without I/O. It returns one step: the next
write, or the reason why no write is needed or possible. A loop (`runtime.loop`) takes a key from its queue and
gets the step for the key. The executor (`runtime.executor`) carries out the step. Then the loop gets the next
step, from the objects that include this write. Correctness needs no memory between two writes: if the process
dies after any write, the next process continues from the objects.

| module        | contents                                                                |
|---------------|-------------------------------------------------------------------------|
| `controllers` | starts the scheduler and all controllers, which share one set of caches |
| `settings`    | the settings of scheduling                                              |
| `scheduler`   | the scheduling cycle: pipeline, binding, snapshot                       |
| `classic`     | negotiates with controllers that allocate claims (KEP-3063)             |
| `preemption`  | evicts pods of lower priority for their devices                         |
| `queueing`    | attempts, queueing hints, pods that wait for conditions                 |
| `claims`      | creates claims from templates, releases them and deletes them           |
| `extended`    | extended resources (KEP-5004)                                           |
| `conflicts`   | devices that are allocated to two claims                                |
| `taints`      | DeviceTaintRules and eviction (KEP-5055)                                |
| `pools`       | the pool controller                                                     |
| `runtime`     | caches, work queue, the loop, actions and their executor                |

This package never imports `dradriver.cluster`. The embedded control plane runs the package, and a real cluster
can run it too.
"""
