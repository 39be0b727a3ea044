"""The scheduling cycle: from a pod without a node to a bound pod.

| module | contents |
|---|---|
| `scheduler` | the scheduler: makes plans, writes them, retries |
| `pipeline` | PreFilter, Filter, Score and PostFilter as functions of a snapshot |
| `binding` | the writes of a plan in order (PreBind, Bind), and their reversal (Unreserve) |
| `binding_conditions` | how far the devices of a claim are from ready (KEP-5007) |
| `snapshot` | the objects that one decision reads, and its result |
| `cluster_view` | makes snapshots from the caches and the plans in flight |
| `cycle` | the working values of one attempt |
| `node_filters` | readiness, cordon, affinity and taints of nodes |
| `pod_anti_affinity` | required anti-affinity between pods |
| `ready_nodes` | nodes that can serve a pod without an attach |
| `assumed_allocations` | claims with the allocations of plans in flight (Reserve) |
| `unconfirmed_writes` | plans whose last write must be read back |
"""
