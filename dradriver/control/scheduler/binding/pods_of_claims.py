"""Find the pods that use a claim: those that name it, and the owner of a special claim (KEP-5004)."""

from dradriver.control.claims.pod_claims import used_names
from dradriver.control.extended import special_claim_owners
from dradriver.control.runtime.caches import Caches, Index
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["PodsOfClaims"]


class PodsOfClaims:
    """An index of the pods in the cache by the claims that they use."""

    def __init__(self, caches: Caches) -> None:
        """Create an index of caches that have not been entered yet."""
        self._pods = caches.pods
        self._by_claim = Index(caches.pods, used_names)

    def find(self, claim: ResourceClaim) -> list[Pod]:
        """Return the pods that use a claim, as far as the cache contains them."""
        owner = claim.metadata.controller
        pods = list(self._by_claim.find(claim.ref))
        if owner is not None and special_claim_owners(claim):  # a special claim is not in a pod's spec
            pod = self._pods.items.get(f"{claim.metadata.namespace}/{owner.name}")
            pods += [pod] if pod is not None else []
        return pods
