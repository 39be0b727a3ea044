"""Reads claims into subrequests with selectors, tolerations and constraints.

- `cel_selectors`: evaluates selectors and derived attributes with CEL and caches the results on the devices.
- `constraints`: `matchAttribute` and `distinctAttribute` as bit arithmetic.
- `matching`: tests devices against the selectors of claims, without a search.
- `selectors`: the protocol through which the search evaluates selectors.
- `subrequests`: parses the requests of claims and rejects claims that no node can serve.
- `tolerations`: matches the taints of devices with the tolerations of requests.
"""
