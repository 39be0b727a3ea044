"""Proves that requests can't be served together, whatever devices are chosen for them.

Each proof disregards some of the rules, so a refusal by a proof is certain. An answer "servable" needs an
example that keeps all rules.

- `bin_fit`: treats the requests as items and the counters of one name as bins.
- `bin_packing`: packs items into bins, or proves that they don't fit.
- `counter_bound`: computes the maximum number of devices that the counters of a node still allow.
- `counter_matching`: computes the maximum number of devices if each counter serves only one of them.
- `prover`: decides whether the remaining requests can be served. It may serve them in any order.
- `request_flow`: distributes the requests over the components that can serve them.
"""
