"""The verdict of claims on one node, without building a `Supply` in the frequent cases.

Modules:

- `bit_search`: a small search on bit sets, for several requests and for constraints.
- `bitset_fit`: computes verdicts for a single request without constraints.
- `candidate_masks`: finds the devices that can serve a request, whatever devices are held.
- `part_evaluator`: computes the verdict of a part of the claims, by the cheapest of these ways.
- `shape_view`: claims as nodes with one signature see them, and their independent parts.
- `verdicts`: what a verdict is.
"""
