"""What runs once a cluster: the claims that pods need, and where pods run.

Law of this package: a decision is a pure function of a snapshot of objects, and says one step: the next
write, or why there is none. One loop (`loop`) takes a key from its queue, asks for the step, has it carried
out (`executor`), and asks again, now of the objects as that write left them. So nothing has to be remembered
from one write to the next: a process that dies after any of them goes on from the objects alone.

The rooms: `ownership` decides what becomes of claims, `pipeline` where a pod runs (PreEnqueue, PreFilter,
Filter, Score), `binding` which write comes next once that is decided (PreBind, Bind, Unreserve). `actions`
are the writes as values; `conditions` says how far the devices of a claim are (KEP-5007). `extended` makes
requests of extended resources (KEP-5004), `extended_resources` are the pipeline's steps for them. `claims` and
`scheduler` hold the queues for these, `cluster_view` makes the snapshots, `interests` says which changes wake
pods, `doubts` which plans have to be looked up first. `eviction` says when a pod has to go because of tainted
devices, `rule_status` what a DeviceTaintRule says of that; `eviction_controller` holds the queue for both.
`pool_controller` tells of pools that no claim can use.

This package never imports `dradriver.cluster`: the embedded control plane runs it, a real cluster may too.
"""
