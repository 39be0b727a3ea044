"""The devices of a node: discover them, store them for prepares, and publish them.

Modules:

- `discovery`: calls `discover()` at start, periodically and on request.
- `inventory`: stores the discovered pools, for lookups and counter checks.
- `shared_pools`: looks up pools of the driver that the control plane publishes.
- `attachment_wait`: delays the prepare of devices that the control plane attaches after the pod is bound.
- `publishing`: creates the publisher and runs it while this instance is elected.
- `publish_election`: decides which of several instances of the driver publishes.
"""
