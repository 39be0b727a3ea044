"""ResourceQuota: computes the usage of a namespace's objects, and rejects objects that would exceed a quota.

Law of this package: usage must always be computed from the objects, never incremented and decremented. It can
therefore not become wrong, even after a crash. As in Kubernetes 1.37, pods and ResourceClaims are counted.
Quotas of other kinds are stored, but their usage is not counted. Quotas with scopes are rejected.

| module | contents |
|---|---|
| `usage` | the usage of a quota by a pod or a claim |
| `namespace` | the usage of all objects of a namespace |
| `admission` | rejects objects that would exceed a quota |
| `controller` | updates the `status` of quotas |
"""
