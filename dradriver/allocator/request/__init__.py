"""Reads claims and returns subrequests with selectors, tolerations and constraints.

- `cel_selectors`: evaluates selectors and derived attributes with CEL and caches the results on the devices.
- `constraints`: evaluates `matchAttribute` and `distinctAttribute` with bit arithmetic.
- `selectors`: the protocol through which the search evaluates selectors.
- `subrequests`: parses the requests of claims and rejects claims that no node can serve.
- `tolerations`: matches the taints of devices with the tolerations of requests.
"""
