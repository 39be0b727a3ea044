"""Places pods in a cluster that changes: the allocator for many nodes, updated by events.

    placer = Placer(order=PACKED)
    placer.put_node(Node("node-1", {"zone": "a"}))
    placer.put_slice(resource_slice)
    placer.put_class(device_class)
    placer.put_claim(claim)                  # a claim with an allocation holds its devices
    placement = placer.place(claims)         # Placement(node="node-1", allocations={uid: Allocation})
    claims = placer.hold(claims, placement)  # the same claims, allocated; their devices are in use now

Events may arrive in any order and may be repeated. Each `put_...` replaces the object with that name. Each
`remove_...` forgets it, and removing an unknown object is a no-op. `place` only decides and changes nothing.
The devices of a placement are in use after `hold`, or after `put_claim` when the watch delivers the allocated
claims. If a write fails, `put_claim` with the claims as they are reverts it.

The answer equals that of `allocate()` on every node in turn. Under `ordered` it is the first node by name on
which the claims fit without binding conditions, or else with them. Under `packed` it is the best node, and the
first by name among equals (`Order.prefers`). `place` takes only claims without an allocation. `may_run_on` must
exclude the nodes on which the pod's allocated claims can't be used.

Law of this package: it never decides differently from `allocate()`. It only avoids repeated work. This is exact
for these reasons:

- An allocation depends on the devices of a node, on which of them are held, and on their order. It does not
  depend on names. So nodes that are equal except for names get equal verdicts, device by device (`contents`,
  `blueprint`).
- Values of attributes matter if a selector reads them. Otherwise only the equality of two values matters
  (`node_signature`).
- Held devices matter only through their effect: the counters that are left, the groups in force, and the
  devices that are still available (`blueprint.ComponentState`).
- Selectors are not evaluated on devices in use. If a selector fails on some device, it matters which devices
  are held. From then on, nodes are also distinguished by that (`fleet`).
- A pool that several nodes reach is part of their signature as it is. Any change of it invalidates all verdicts
  of nodes that reach it (`fleet`).

So nodes form classes, and a claim shape is evaluated once for each class. A claim shape with nothing to combine
needs no search.

Modules:

- `bitset_fit`: verdicts for a single request without constraints, as operations on bit sets.
- `blueprint`: a pool, compiled once for all nodes of its kind.
- `claim_shapes`: the kinds of pods, their verdicts, and a heap of the classes in which they fit.
- `class_evaluator`: the verdict of a claim shape on one class of nodes.
- `classes`: classes of equal nodes.
- `contents`: slices without names, stored once.
- `fleet`: the nodes, pools and claims, updated by events.
- `node_signature`: the devices of a node, up to differences that no claim can detect.
- `placer`: the entry point of the room.
- `pools`: one node's pool: its blueprint, its names and its use.
- `refusals`: the reasons why no node fits, grouped by nodes.
- `usage_index`: which claim holds which device.
"""

from dradriver.allocator.placement.placer import Placement, Placer
from dradriver.allocator.placement.refusals import NoNodeFits, RefusedNodes

__all__ = ["NoNodeFits", "Placement", "Placer", "RefusedNodes"]
