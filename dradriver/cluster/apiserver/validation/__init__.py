"""The rules of the served kinds, with the checks and messages of Kubernetes 1.37.

Pure functions from objects to causes; they change nothing. Paths and messages are the real server's, so that a
client that searches for them works with both.

| module | contents |
|---|---|
| `field` | field errors, one function for each reason |
| `metadata` | `metadata` of every kind |
| `names` | the kinds of names |
| `claims` | ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule |
| `slices` | ResourceSlice |
| `devices` | selectors, configuration, taints, binding conditions |
| `capacities` | shared capacities and node allocatable resources |
| `derived` | derived attributes |
| `nodeselector` | node selectors |
| `resources` | amounts in containers and quotas |
| `definitions` | CustomResourceDefinition |
"""
