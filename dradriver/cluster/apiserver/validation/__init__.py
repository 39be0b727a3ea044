"""The rules of the served kinds, with the checks and messages of Kubernetes 1.37.

The functions are pure: they return the causes of errors and do not change the objects. Paths and messages are
equal to the real server's. A client that searches for them therefore works with both servers.

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
| `pod_claims` | claims of pods |
| `definitions` | CustomResourceDefinition |
"""
