"""Classes of equal nodes, so that a verdict on one node is a verdict on all nodes of its class.

Modules:

- `lens`: the classes of all nodes, for claims that read the same attributes.
- `node_classes`: a class of nodes, and all classes of a lens.
- `node_signature`: the pools of the nodes of a class, up to differences that no claim of the lens detects.
"""
