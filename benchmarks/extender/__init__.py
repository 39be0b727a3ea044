"""The extender behind a real kube-scheduler.

- `throughput`: pods a second, beside kube-scheduler's own plugin.
- `waiting`: pods that wait for binding conditions in a large cluster.
- `cluster`: the control plane and its schedulers.
"""
