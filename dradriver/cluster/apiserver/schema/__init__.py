"""The fields of each served kind: names, types and merge behavior. The code here names no kind.

`kubernetes.json` has the field names, types, merge keys and list types of the kinds that the server knows.
`generate.py` generates it from the Go types of a Kubernetes release. `apiextensions.json` has the same for
custom resource definitions and is written by hand.

| module | contents |
|---|---|
| `types` | reads both files |
| `decode` | a request's JSON to an object of such a type, as Go's decoder does |
| `protobuf` | the same from Kubernetes' binary form |
| `generate` | writes `kubernetes.json` |
"""
