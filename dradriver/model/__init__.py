"""The objects of the API group resource.k8s.io, as Python values.

Rules for code in this package: it must contain only values and the rules for values. Values must be frozen and
compared by content. They must have the structure of the v1 API, so that JSON is decoded to values directly.
Each rule that a value must obey must be written only once. Code must not use I/O, a clock or randomness, and
must not depend on a client, a driver or an event loop.

Modules:

- `cdi`: CDI specs. A CDI spec tells the container runtime what to add to a container.
- `extended_names`: the names of extended resources, with which pods can request devices.
- `names`: the rules for names.
- `quantity`: Kubernetes quantities as exact integers.

Rooms:

- `core`: metadata, conditions, leases, node selectors, pods and nodes.
- `encoding`: converts values to JSON and back, and between API versions, and finds unknown fields.
- `resource`: claims, devices, slices and pools, and their rules.
"""
