"""Claim shapes: the kinds of claims that pods have, and the nodes on which they fit best.

Modules:

- `claim_shapes`: finds the best node for the equal claims of some pods.
- `class_groups`: classes of nodes with one verdict for the devices that several nodes reach.
- `class_heap`: finds the best of the classes of such a group.
- `own_verdicts`: the verdicts of these classes for the devices that only one node reaches.
- `ranked_groups`: such groups, sorted by the devices of the shared pools.
- `relaxation`: claims that compare attributes which are different on each node.
- `shape_cache`: keeps the claim shapes of the pods that were placed lately.
"""
