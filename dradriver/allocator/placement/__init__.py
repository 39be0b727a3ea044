"""Where a pod goes in a cluster that changes: the allocator over many nodes, fed with events.

    placer = Placer(order=PACKED)
    placer.put_node(Node("node-1", {"zone": "a"}))
    placer.put_slice(resource_slice)
    placer.put_class(device_class)
    placer.put_claim(claim)                  # a claim with an allocation holds its devices
    placement = placer.place(claims)         # Placement(node="node-1", allocations={uid: Allocation})
    claims = placer.hold(claims, placement)  # the same claims, allocated; their devices are in use now

Events come in any order and as often as they like: each `put_...` replaces what was known under that name,
each `remove_...` forgets it, and what is not known is no mistake. `place` decides and changes nothing: what it
found is in use once the caller holds it (`hold`, or `put_claim` when the watch brings the allocated claims).
What could not be written is undone by `put_claim` of the claims as they are.

The answer is that of `allocate()` on every node in turn: under `ordered` the first node by name on which the
claims fit without binding conditions, or else with them; under `packed` the best one, of equal ones the first
by name (`Order.prefers`). Claims that are allocated already are no part of the question; where they can be used
belongs in `may_run_on`.

Law of this package: it never decides anything that `allocate()` would decide otherwise. It only avoids asking
twice. Why that is exact:

- An allocation depends on what the devices of a node are, on which of them are held, and on which devices come
  before which. It does not depend on what anything is called. So nodes that agree up to names agree in every
  verdict, device by device (`contents`, `blueprint`).
- Values of attributes matter where a selector reads them; elsewhere only whether two are equal (`stock`).
- Of what is held only the effect matters: what is left of the counters, which groups are in force, which
  devices can still be had (`blueprint.ComponentState`).
- Selectors do not look at devices in use. Where one fails on some device it matters which ones are held, so
  from then on nodes are told apart by that too (`fleet`).
- What several nodes reach is no node's own: it is part of their stock as it is, and whatever happens to it
  makes all verdicts of nodes that reach it void (`fleet`).

So nodes form classes (`classes`), a wish is held against a class once (`judge`, `wishes`), and wishes with
nothing to combine need no search at all (`plain`).
"""

from dradriver.allocator.placement.placer import Placement, Placer
from dradriver.allocator.placement.refusals import NoNodeFits, RefusedNodes

__all__ = ["NoNodeFits", "Placement", "Placer", "RefusedNodes"]
