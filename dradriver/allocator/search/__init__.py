"""Finds the candidates of each request and searches for the first allocation in order of preference.

- `backtracking`: visits choices depth first with an explicit stack.
- `bounds`: proves quickly that the remaining requests can't all be served.
- `candidates`: finds the devices that can serve each subrequest, and the reasons against the other devices.
- `packing`: computes the cost of a device for the order `packed`.
- `plan`: joins the requests with their candidates on one node.
- `search`: the depth-first search.
- `state`: tracks the free counters, capacities and devices during a search, and decides which requests may
  share a device.
- `symmetry`: finds equivalent choices, so that the search tries only one of them.

Rooms:

- `proofs`: decides whether the remaining requests can be served. It may serve them in any order.
"""
