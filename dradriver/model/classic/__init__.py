"""Classic DRA (KEP-3063): claims that a vendor's controller allocates, instead of the scheduler.

Kubernetes removed the fields of KEP-3063. Their values have these homes:

| module | contents |
|---|---|
| `names` | the API group, limits, and names of finalizers and conditions |
| `parameters` | `ControllerClass` and `ControllerClaim`: opaque configuration of classes and claims |
| `controlled_claims` | decides which controller allocates a claim, and when |
| `handles` | `ResourceHandle`: data from the controller for a kubelet plugin, in parts |
| `scheduling` | `PodSchedulingContext`: the negotiation of scheduler and controllers about one pod |
| `allocation_records` | `ControllerAllocation`: the controller's own record of an allocation |
"""
