"""Detach a device only after its node has released it (`node_releases`); see `node.usage`.

Modules:

- `release_check`: reads nodes and their usage notes for the controller.
- `waits`: waits until a node has released a device, and reports a node that does not.
- `node_state`: asks a node's driver for its report.
- `take_back`: on a node, reverts each `attach` that was not followed by a `prepare`.
"""
