"""Keeps the claim shapes of the pods that were placed lately, with the classes of nodes that they need."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from dradriver.allocator.device_choice import ParsedClaims, parse_claims
from dradriver.allocator.meter import BudgetSpentError, Meter
from dradriver.allocator.placement.classes.lens import Lens, short_name
from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.fleet.attribute_index import AttributeIndex
from dradriver.allocator.placement.shapes.claim_shapes import ClaimShape
from dradriver.allocator.placement.shapes.class_groups import BestNode
from dradriver.allocator.placement.shapes.relaxation import CutClaims, CutShape, RelaxedShape, cut_claims
from dradriver.allocator.request.constraints import parse_constraints
from dradriver.allocator.supply.order import Preference
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["Shape", "ShapeCache"]

K = TypeVar("K")
V = TypeVar("V")

_MAX_SHAPES: Final = 256
"""Maximum number of claim shapes that are kept."""
_MAX_INDEXES: Final = 64
_CHECKS: Final = 25
_READING: Final = 35
"""Percentages of a pod's budget for the first look at all nodes. The rest is for the nodes looked at."""
_MAX_LENSES: Final = 32


class Shape(Protocol):
    """Finds nodes for the claims of a pod."""

    @property
    def lens(self) -> Lens:
        """Return a lens whose classes have nodes with equal reasons for a refusal."""

    def find_best(self, allows: Allows) -> BestNode | None:
        """Return the best allowed node; None if the claims fit on no allowed node."""

    def find_on(self, name: str) -> BestNode | None:
        """Return the verdict for a node; None if the claims don't fit there."""

    def iter_fitting(self, names: Iterable[str]) -> Iterator[tuple[str, Preference]]:
        """Yield those of the nodes on which the claims fit, with their ratings."""

    def undecided(self) -> Iterator[NodeClass]:
        """Yield the classes on which the search gave up."""


class ShapeCache:
    """The claim shapes of pods, their lenses and the indexes of attributes."""

    def __init__(self, evaluator: PartEvaluator) -> None:
        self._evaluator = evaluator
        self._fleet = evaluator.fleet
        self._selectors = evaluator.candidate_masks.selectors
        self._shapes: dict[tuple[bytes, ...], ClaimShape] = {}
        self._relaxed: dict[Hashable, RelaxedShape] = {}
        self._cut: dict[tuple[bytes, ...], CutShape] = {}
        self._lenses: dict[Hashable, Lens] = {}
        self._indexes: dict[str, AttributeIndex] = {}

    def clear(self) -> None:
        """Forget the claim shapes, because a device class has changed."""
        self._shapes.clear()
        self._relaxed.clear()
        self._cut.clear()

    def find(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass], meter: Meter) -> Shape:
        """Return the shape of a pod's claims. Its classes are up to date.

        Args:
            claims: the claims.
            classes: all device classes by name.
            meter: counts the work.

        Raises:
            Refusal: a claim is wrong on every node (`claim`), or reading the claims exceeds the budget
                (`undecided`).
            BudgetSpentError: the budget is spent.
        """
        key = tuple([encode(claim.spec) for claim in claims])
        shape = self._shapes.pop(key, None)
        known = self._cut.pop(key, None)
        if known is not None and self._is_current(known):
            return _keep(self._cut, key, known)
        if shape is None:
            parsed = parse_claims(claims, classes, self._evaluator.features, self._selectors, meter)
            cut = cut_claims(parsed, self._selectors, self._is_individual, meter)
            relaxed = None if cut is None else self._find_relaxed(cut)
            if cut is not None and relaxed is not None:
                return _keep(self._cut, key, relaxed.bind(cut, self._index))
            shape = self._make(parsed)
        _keep(self._shapes, key, shape)
        self._update(shape)
        if shape.fails and not shape.lens.distinguishes_holders:
            # Selectors are not evaluated on held devices, so which devices are held matters from now on.
            shape = self._shapes[key] = self._make(shape.parsed, distinguishes_holders=True)
            self._update(shape)
        return shape

    def _is_current(self, shape: CutShape) -> bool:
        """Return whether claims may still be cut as before."""
        return (
            all(map(self._is_individual, shape.cut.attributes))
            and self._relaxed.get(shape.cut.key) is not None
            and self._find_relaxed(shape.cut) is not None
            and self._relaxed[shape.cut.key].shape is shape.relaxed
        )

    def _update(self, shape: ClaimShape) -> None:
        meter = self._evaluator.meter
        shape.lens.update(meter)
        if meter.is_spent:
            raise BudgetSpentError
        # A part of the budget stays for the classes that are known.
        meter.spend_part(_READING, shape.read_classes)

    def _find_relaxed(self, cut: CutClaims) -> RelaxedShape | None:
        """Return the shape for claims that are cut; None if they must not be cut."""
        relaxed = self._relaxed.pop(cut.key, None)
        if relaxed is None:
            relaxed = RelaxedShape(cut, self._make(cut.relaxed), self._evaluator)
        _keep(self._relaxed, cut.key, relaxed)
        self._evaluator.meter.spend_part(_CHECKS, relaxed.check_nodes)
        if not relaxed.is_usable:
            return None
        self._update(relaxed.shape)
        return None if relaxed.shape.fails else relaxed

    def _index(self, attribute: str) -> AttributeIndex:
        index = self._indexes.get(attribute)
        if index is None:
            if len(self._indexes) >= _MAX_INDEXES:
                self._indexes.clear()
            index = self._indexes[attribute] = AttributeIndex(self._fleet, attribute)
        index.update(self._evaluator.meter)
        return index

    def _is_individual(self, attribute: str) -> bool:
        return self._index(attribute).is_individual

    def _make(self, parsed: ParsedClaims, *, distinguishes_holders: bool = False) -> ClaimShape:
        lens = self._find_lens(parsed, distinguishes_holders=distinguishes_holders)
        return ClaimShape(parsed, lens, self._evaluator)

    def _find_lens(self, parsed: ParsedClaims, *, distinguishes_holders: bool) -> Lens:
        reads: frozenset[str] | None = parsed.derived
        for expression, derives in parsed.expressions:
            more = self._selectors.reads(expression, derives=derives)
            reads = None if reads is None or more is None else reads | more
        constraints = parse_constraints(parsed.claims, self._evaluator.features)
        compares = frozenset([short_name(constraint.attribute) for constraint in constraints])
        key = reads, compares, distinguishes_holders
        lens = self._lenses.pop(key, None)
        if lens is None:
            if len(self._lenses) >= _MAX_LENSES:
                self._forget(self._lenses.pop(next(iter(self._lenses))))
            lens = Lens(self._fleet, reads, compares, distinguishes_holders=distinguishes_holders)
        self._lenses[key] = lens
        return lens

    def _forget(self, lens: Lens) -> None:
        self._shapes = {key: each for key, each in self._shapes.items() if each.lens is not lens}
        self._relaxed = {key: each for key, each in self._relaxed.items() if each.shape.lens is not lens}


def _keep(cache: dict[K, V], key: K, value: V) -> V:
    """Keep a value and return it. The value that was not used for the longest time is forgotten."""
    cache[key] = value
    if len(cache) > _MAX_SHAPES:
        del cache[next(iter(cache))]
    return value
