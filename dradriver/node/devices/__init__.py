"""The devices of a node: discover them, keep them for prepares, and publish them.

Modules:

- `discovery`: calls `discover()` at start, periodically and on request.
- `inventory`: the discovered pools, for lookups and counter checks.
- `shared_pools`: pools of the same driver that the control plane publishes.
- `publishing`: creates the publisher and runs it while this instance is elected.
- `publish_election`: decides which of several instances publishes.
"""
