"""Run a `ControllerDriver`: allocate claims instead of the scheduler (classic DRA, KEP-3063).

Rule of this package: `steps` and `results` decide without I/O; the other modules only execute. Before a side
effect, the claim has the finalizer of the controller, and a `ControllerAllocation` records the attempt. Every
method of the driver may be called again.

- `controller`: the loop, and the rights that it needs.
- `steps`: the next step for a claim, and for a pod that waits for claims.
- `state`: the objects of the cluster, and the unfinished attempts of this process.
- `allocating`: allocates claims. Its docstring lists what follows if the process dies.
- `releasing`: deallocates claims. Its docstring lists what follows if the process dies.
- `answering`: checks nodes for a pod, and answers the scheduler.
- `orphans`: releases what the hardware holds for no claim.
- `rivals`: takes over the claims of another Lease.
- `parameters`: reads the parameters of classes and claims.
- `results`: checks what the driver returns, and builds allocations.
- `writes`: the writes of claims and records.
- `reports`: Events of claims.
- `metrics`: the metrics.
"""
