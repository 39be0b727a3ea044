"""ResourceQuota: the usage of a namespace's objects, and the rejection of objects that would exceed it.

Law of this package: usage is computed from the objects, never counted up and down, so it can't drift and a
crash loses nothing. It counts pods and ResourceClaims, as Kubernetes 1.37 does. Quotas of other kinds are
stored without a count. Quotas with scopes are rejected.

| module | contents |
|---|---|
| `containers` | the sum of the resources of a pod's containers |
| `usage` | the usage of a quota by a pod or a claim |
| `namespace` | the usage of all objects of a namespace |
| `admission` | rejects objects that would exceed a quota |
| `controller` | updates the `status` of quotas |
"""
