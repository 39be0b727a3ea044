"""The fields of each served kind: names, types and merge behavior.

The code of this package must not name individual kinds.

`kubernetes.json` has the field names, types, merge keys and list types of the kinds that the server knows.
`generate.py` generates it from the Go types of a Kubernetes release. `apiextensions.json` has the same content
for custom resource definitions and is written by hand.

| module | contents |
|---|---|
| `types` | reads both files |
| `decode` | converts a request's JSON to an object of its type, as Go's decoder does |
| `protobuf` | converts Kubernetes' binary form to the same JSON tree |
| `generate` | writes `kubernetes.json` |
"""
