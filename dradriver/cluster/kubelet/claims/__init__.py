"""The claims of a node, as the kubelet's DRA manager handles them.

| module | contents |
|---|---|
| `manager` | prepares and unprepares the claims of pods |
| `claim_records` | the records of the claims on the node, and the checkpoint file |
| `health` | the device health that drivers report (KEP-4680) |
| `resource_status` | device health in a container's status |
"""
