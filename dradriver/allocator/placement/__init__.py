"""Places pods in a cluster that changes: the allocator for many nodes, updated by events.

    placer = Placer(order=PACKED)
    placer.put_node(Node("node-1", {"zone": "a"}))
    placer.put_slice(resource_slice)
    placer.put_class(device_class)
    placer.put_claim(claim)                  # a claim with an allocation holds its devices
    placement = placer.place(claims)         # Placement(node="node-1", allocations={uid: Allocation})
    claims = placer.hold(claims, placement)  # the claims with allocations; the devices are in use now

Events may arrive in any order and may be repeated. Each `put_...` adds an object, or replaces the existing
object of the same name. Each `remove_...` removes the object with the given name, and is a no-op if the object
is unknown. `place` only decides. It does not mark devices as used. The devices of a placement are in use after
`hold`, or after the watch delivers the allocated claims and `put_claim` is called with them. If the allocations
can't be written, call `put_claim` with the claims as the API server has them. This reverts `hold`.

`place` returns the node that a caller would choose after calling `allocate()` on every node. Under `ordered`,
it is the first node by name on which the claims fit without binding conditions. If there is none, it is the
first node by name on which the claims fit. Under `packed` it is the best node, or the first by name of several
equally good nodes (`Order.compute_preferences`). The caller must pass only claims without an allocation. If
other claims of the pod are already allocated, `may_run_on` must exclude the nodes on which they can't be used.

Rule for code in this package: it must never decide differently from `allocate()`. It only avoids repeated work.
The decisions are the same for these reasons:

- An allocation depends on the devices of a node, on their order, and on which of them are held. It does not
  depend on names. So nodes that differ only in names get equal verdicts, device by device (`fleet`).
- The value of an attribute matters if a selector of the claims reads the attribute. Otherwise only the equality
  of two values matters, and only to constraints (`classes.lens`).
- Which devices are held matters only for the counters that are left, the groups in force, and the devices that
  are still available (`fleet.blueprint.ComponentState`).
- Selectors are not evaluated on devices in use. If a selector fails on a device, it matters whether that device
  is held. Then nodes with different held devices belong to different classes.
- Requests that share no candidates and no constraint are decided apart: the first allocation of independent
  parts is the first allocation of each (`evaluation.shape_view`).
- The first choice among more devices is the first choice among fewer devices, if these contain it
  (`shapes.relaxation`).

If the budget of a pod is spent before all nodes are looked at, the result is the best of the nodes that were
looked at. The next attempt goes on with the other nodes.

Rooms:

- `classes`: classes of equal nodes.
- `evaluation`: the verdict of claims on one node.
- `fleet`: the nodes, pools and claims, updated by events.
- `shapes`: the kinds of claims that pods have, and their best nodes.

Modules:

- `placer`: the entry point of this package.
- `refusals`: explains why no node fits, and groups the nodes by their reasons.
"""

from dradriver.allocator.placement.placer import Placement, Placer
from dradriver.allocator.placement.refusals import NoNodeFits, RefusedNodes

__all__ = ["NoNodeFits", "Placement", "Placer", "RefusedNodes"]
