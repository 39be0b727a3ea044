"""Cost and packing of allocation, beside kube-scheduler's own plugin on the same workloads.

Nothing is asserted here. The tables show figures with their targets.

- `__main__`: places the pods of every workload and prints the tables.
- `workloads`: nodes, devices, and pods with claims.
- `placing`: places the pods of a workload with dradriver's allocator.
- `programs`: runs both programs in their own processes.
- `kubescheduler`: the Go program with kube-scheduler's plugin.
- `refusals`: time of a refusal.
- `churn`: packing while pods come and go.
- `component_churn`: fragmentation of components while claims come and go.
- `mixes`: components of GPUs and TPU pools, and mixes of claims for them.
- `weights`: the work that the allocator counts, compared with the CPU time that it takes.
"""
