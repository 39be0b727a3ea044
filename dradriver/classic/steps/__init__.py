"""Decide what a controller does next for a claim or a pod. The functions are pure.

- `claim_steps`: the next step for a claim: from the claim, its record and the work of this process.
- `pod_steps`: the next step for a pod with unallocated claims: from its `PodSchedulingContext`.
"""
