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
claims fit, under `packed` the best one (`Order.rate`). Claims that are allocated already are no part of the
question; where they can be used belongs in `may_run_on`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from dradriver.allocator import (
    MAX_STEPS,
    ORDERED,
    CelSelectors,
    Features,
    Inventory,
    Kind,
    Node,
    Order,
    Refusal,
    Reporter,
    SelectorProvider,
    allocate,
)
from dradriver.allocator.ledger import Ledger
from dradriver.errors import DraError
from dradriver.model.claim import Allocation, ResourceClaim
from dradriver.model.deviceclass import DeviceClass
from dradriver.model.slices import ResourceSlice

__all__ = ["NoNodeFits", "Placement", "Placer", "RefusedNodes"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, and what the claims get there.

    Attributes:
        node: its name.
        allocations: by claim UID, by `namespace/name` where a claim has none.
    """

    node: str
    allocations: Mapping[str, Allocation]


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Nodes that refuse for the same reasons.

    Attributes:
        refusal: the one of the first of them by name; the devices and claims that it names are that node's.
        nodes: their names, sorted.
    """

    refusal: Refusal
    nodes: tuple[str, ...]


class NoNodeFits(DraError):  # noqa: N818 - an answer more than an error
    """No node can have the claims.

    Attributes:
        kind: `undecided` when the search gave up on a node, else `node`.
        groups: the nodes that were tried, those with equal reasons together, the largest group first.
    """

    def __init__(self, groups: Iterable[RefusedNodes]) -> None:
        self.groups = tuple(sorted(groups, key=lambda group: (-len(group.nodes), group.nodes)))
        self.kind: Kind = (
            "undecided" if any(group.refusal.kind == "undecided" for group in self.groups) else "node"
        )
        tried = sum(len(group.nodes) for group in self.groups)
        told = ", ".join(f"{len(group.nodes)} {group.refusal.brief()}" for group in self.groups)
        super().__init__(f"0/{tried} nodes are available: {told}" if told else "no node may be tried")


class Placer:
    """The nodes, devices and claims of a cluster, ready to place pods.

    Args:
        order: in which order devices and nodes are preferred.
        features: what is switched on.
        selectors: how selectors are evaluated; CEL unless a test has another way.
        max_steps: how often a device may be tried on one node before the answer is "undecided".
    """

    def __init__(
        self,
        *,
        order: Order = ORDERED,
        features: Features | None = None,
        selectors: SelectorProvider | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._order = order
        self._features = features or Features()
        self._selectors = selectors or CelSelectors()
        self._max_steps = max_steps
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._ledger = Ledger()
        self._inventory = Inventory({})
        self._stale = False

    # --- events --------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """A node, new or changed."""
        self._nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)

    def put_slice(self, source: ResourceSlice) -> None:
        """A ResourceSlice, new or changed."""
        self._slices[source.metadata.name] = source
        self._stale = True

    def remove_slice(self, name: str) -> None:
        """A ResourceSlice is gone."""
        self._stale = self._slices.pop(name, None) is not None or self._stale

    def put_class(self, device_class: DeviceClass) -> None:
        """A DeviceClass, new or changed."""
        self._classes[device_class.metadata.name] = device_class

    def remove_class(self, name: str) -> None:
        """A DeviceClass is gone."""
        self._classes.pop(name, None)

    def put_claim(self, claim: ResourceClaim) -> None:
        """A claim, new or changed: with an allocation it holds its devices, without it holds none."""
        self._ledger.put(claim)

    def remove_claim(self, ref: str) -> None:
        """A claim (`namespace/name`) is gone."""
        self._ledger.remove(ref)

    def hold(self, claims: Iterable[ResourceClaim], placement: Placement) -> list[ResourceClaim]:
        """Puts the claims with what they got; returns them so. Those that got nothing are left as they are."""
        allocated = []
        for claim in claims:
            found = placement.allocations.get(claim.metadata.uid or claim.ref)
            if found is not None:
                claim = replace(claim, status=replace(claim.status, allocation=found))  # noqa: PLW2901
                self.put_claim(claim)
            allocated.append(claim)
        return allocated

    # --- answers -------------------------------------------------------------------------------

    def place(
        self,
        claims: Sequence[ResourceClaim],
        *,
        may_run_on: Callable[[Node], bool] | None = None,
        now: datetime | None = None,
    ) -> Placement:
        """The node for a pod with these claims, and their allocations there.

        Args:
            claims: the pod's claims that have no allocation yet, in the pod's order.
            may_run_on: which nodes may be tried; None means all. Not asked for nodes that don't fit anyway.
            now: the allocations' timestamp; None leaves it out.

        Raises:
            NoNodeFits: no node can have them.
            Refusal: of kind `claim`, when something is wrong with a claim, whatever the node.
        """
        best: tuple[object, Placement] | None = None
        refused: dict[object, tuple[Refusal, list[str]]] = {}
        for name in sorted(self._nodes):
            node = self._nodes[name]
            if may_run_on is not None and not may_run_on(node):
                continue
            try:
                placement = Placement(name, self.allocate_on(name, claims, now=now))
            except Refusal as refusal:
                if refusal.kind == "claim":
                    raise
                refused.setdefault(_gist(refusal), (refusal, []))[1].append(name)
                continue
            if self._order is ORDERED:
                return placement
            best = best or (None, placement)
        if best is not None:
            return best[1]
        raise NoNodeFits(RefusedNodes(refusal, tuple(names)) for refusal, names in refused.values())

    def allocate_on(
        self,
        name: str,
        claims: Sequence[ResourceClaim],
        *,
        now: datetime | None = None,
        reporter: Reporter | None = None,
    ) -> Mapping[str, Allocation]:
        """What the claims get on one node: `allocate()` with what the placer knows.

        Raises:
            Refusal: they don't fit there; its reasons are about this node.
            KeyError: there is no such node.
        """
        if self._stale:
            self._inventory = Inventory.of(self._slices.values(), self._inventory)
            self._stale = False
        return allocate(
            claims,
            self._inventory,
            self._classes,
            self._ledger.in_use(list(self._inventory.pools)),
            self._nodes[name],
            features=self._features,
            reporter=reporter,
            now=now,
            order=self._order,
            selectors=self._selectors,
            max_steps=self._max_steps,
        )


def _gist(refusal: Refusal) -> object:
    """Equal for refusals that differ in the devices and holders that they name only."""
    return refusal.kind, refusal.claim, refusal.request, refusal.brief()
