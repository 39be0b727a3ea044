"""ResourceQuota: what the objects of a namespace use, and who may not come any more.

Law of this package: usage is computed from the objects, never counted up and down, so nothing can drift and a
crash loses nothing. `containers` sums up what a pod's containers ask for, `usage` says what a pod or a claim
uses of which quota, `admission` refuses what would exceed one, `controller` keeps `status` as things are.

Counted are pods and ResourceClaims, as Kubernetes 1.37 counts them; quotas of other kinds are stored, and
nothing is counted for them. Quotas with scopes are refused.
"""
