"""Filter and Score: choose the node of a pod, and the devices of its claims with the placer.

Other rooms import only these modules:

| module         | contents                                                                                |
|----------------|-----------------------------------------------------------------------------------------|
| `choice`       | chooses the node, other suitable nodes, and the potential nodes for controllers         |
| `search`       | searches the nodes on which the claims fit, the best first, or explains why none suits  |
| `node_filters` | checks a node apart from devices: readiness, cordon, affinity, taints, anti-affinity    |
| `pod_kinds`    | finds which pods are equal for the choice, so that one decision holds for all of them   |
| `refusals`     | the reasons why no node suits a pod, once for all waiting pods of one kind              |

Own modules: `checked_nodes` checks each node once, whatever devices are free, and `alternatives` scores the
alternatives of requests (KEP-4816).
"""
