"""Controllers that have never answered on a cluster, and the failures that controllers report."""

from collections.abc import Iterable, Iterator

from dradriver.cli.classic.claims import ClassicClaim
from dradriver.cli.world import CONTROLLER_FAILURES, World
from dradriver.model.classic.controlled_claims import find_allocating_controller
from dradriver.model.encoding.codec import rfc3339

__all__ = ["reported_failure", "silent_controllers"]


def silent_controllers(world: World, controllers: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each controller that has never answered on this cluster.

    A controller has answered if a PodSchedulingContext has an answer of it, or if a claim or a
    ControllerAllocation shows that it has allocated something. A running controller has a Lease with its name.

    Args:
        world: the objects of the cluster.
        controllers: names of controllers.
    """
    active = {find_allocating_controller(each) for each in world.claims.values()}
    active.update(each.spec.controller_name for each in world.controller_allocations.values())
    active.update(
        answer.controller_name
        for context in world.scheduling_contexts.values()
        for answer in context.status.resource_claims
    )
    for name in dict.fromkeys(controllers):
        if name in active or name in (world.leases or ()):
            continue
        lease = "" if world.leases is None else ", and no Lease has its name"
        yield f"controller {name} has never answered on this cluster{lease}: check that it runs"


def reported_failure(world: World, claim: ClassicClaim) -> str | None:
    """Return a sentence with the last failure that a controller reported about a claim; None if there is none.

    Args:
        world: the world with the events to search.
        claim: the claim.
    """
    uid = claim.claim.metadata.uid
    about = [
        each for each in world.events if each.reason in CONTROLLER_FAILURES and each.involved_object.uid == uid
    ]
    last = max(about, key=lambda event: event.last_seen, default=None)
    if last is None:
        return None
    subject = f"Event {last.reason} of claim {claim.claim.ref} at {rfc3339(last.last_seen)}"
    return f"{subject}: {last.message}"
