"""From a pod without a node to a bound pod.

| module or room     | contents                                                                          |
|--------------------|-----------------------------------------------------------------------------------|
| `scheduler`        | the scheduler of the embedded cluster: tries pods, and reports failures           |
| `scheduling_cycle` | makes the plan of a pod, and records the attempt and its result                   |
| `planner`          | makes the plans in a thread, several at a time                                    |
| `pipeline`         | PreEnqueue, PreFilter and PostFilter as functions of a snapshot                   |
| `node_choice`      | Filter and Score: chooses the node, and the devices with the placer               |
| `binding`          | writes the plan of a pod (PreBind, Bind), or reverts it (Unreserve)               |
| `snapshot`         | the objects that one decision reads, its working values and its result            |
| `cluster_state`    | the placer, nodes and pods that decisions read, updated by events                 |
| `cluster_view`     | the plans in flight, and the events for the cluster's state                       |
"""
