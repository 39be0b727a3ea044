"""The objects of Kubernetes' core groups, with the fields that this project reads or writes.

- `conditions`: reads and changes lists of conditions.
- `config_map`: the ConfigMap object.
- `disruption_budget`: the PodDisruptionBudget object.
- `lease`: the Lease object and the rules of leader election.
- `meta`: object metadata, owners and conditions.
- `node_selector`: node selectors, and the rules by which they match nodes.
- `workload`: the fields of Pod and Node that dynamic resource allocation reads.
"""
