"""Finds the candidates of each request and searches for the first allocation in order of preference.

- `backtracking`: walks through choices depth first with an explicit stack.
- `bounds`: proves quickly that the remaining requests can't all be served.
- `candidates`: finds the devices that can serve each subrequest, and the reasons for the others.
- `conflicting_devices`: finds the chosen devices that break a constraint for another device.
- `counter_bound`: bounds the number of devices that the counters of a node still allow.
- `exclusion_masks`: decides which requests of a pod exclude each other from a device.
- `packing`: computes the cost of a device for the order `packed`.
- `plan`: joins the requests with their candidates on one node.
- `prover`: decides whether the remaining requests can be served, in any order of requests.
- `search`: the depth-first search.
- `state`: the free counters, capacities and devices during a search.
- `symmetry`: finds choices that are equivalent, so that only one of them is tried.
"""
