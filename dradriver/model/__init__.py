"""The objects of resource.k8s.io as values.

Law of this package: it contains only values and the rules for them. Values are frozen, compared by content, and
shaped as the v1 API writes them, so JSON and values are one step apart. Each rule that a value must obey is
written once. There is no I/O, no clock and no randomness. Nothing here knows a client, a driver or a loop.

Modules:

- `cdi`: CDI specs, which tell the container runtime what to add to a container.
- `names`: the rules for names.
- `quantity`: Kubernetes quantities as exact integers.

Rooms:

- `core`: metadata, conditions, leases, node selectors, pods and nodes.
- `encoding`: values to JSON and back, strict checks, API versions.
- `resource`: claims, devices, slices, pools and their rules.
"""
