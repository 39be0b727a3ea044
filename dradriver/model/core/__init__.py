"""The objects of Kubernetes' core groups, with the fields that this project reads or writes.

- `conditions`: lists of conditions as values.
- `lease`: the Lease object and the rules of leader election.
- `meta`: object metadata, owners and conditions.
- `node_selector`: node selectors and how they match.
- `workload`: the fields of Pod and Node that dynamic resource allocation reads.
"""
