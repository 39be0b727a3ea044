"""Places claims whose selectors compare attributes that are different on each node, such as serial numbers.

Such a selector would make each node a class of its own, and each text of such a selector would need a verdict
for each of them. So these comparisons are cut off: the remaining *relaxed* claims are shared by many pods and
have few classes. The nodes are visited in the order of a bound of the rating that the relaxed claims can have
there (`PartEvaluator.bound`). If the devices that the relaxed claims get on a node also meet the comparisons,
they are the devices of the claims themselves, because the first choice among more devices is then the first
choice among fewer devices too. Otherwise the claims are evaluated on this node.

A comparison is only cut off if it can't fail on any device on which the rest of its selector is true.
Otherwise a node that is not visited could show that the claim is wrong.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.meter import CLASSES, BudgetSpentError, Meter
from dradriver.allocator.placement.classes.lens import Lens
from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.evaluation.shape_view import view_shape
from dradriver.allocator.placement.evaluation.verdicts import FAULTY, ShapeFits
from dradriver.allocator.placement.fleet.attribute_index import AttributeIndex
from dradriver.allocator.placement.fleet.fleet import FleetNode
from dradriver.allocator.placement.fleet.pools import Entry
from dradriver.allocator.placement.shapes.claim_shapes import ClaimShape
from dradriver.allocator.placement.shapes.class_groups import BestNode
from dradriver.allocator.request.selectors import SelectorProvider
from dradriver.allocator.request.subrequests import ParsedRequest, PreparedSelector, Subrequest
from dradriver.allocator.supply.order import Preference
from dradriver.cel import Conjunct
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.encoding.codec import encode

__all__ = ["CutClaims", "CutShape", "RelaxedShape", "cut_claims"]


_CHECK: Final = 4
"""Classes that can be evaluated in about the time in which the comparisons are checked on a node."""


@dataclass(frozen=True, slots=True)
class _CutSelector:
    """A selector without some of its parts.

    Attributes:
        number: its number among the selectors of its subrequest.
        relaxed: the rest of the selector; None if nothing is left.
        parts: the parts that are cut off.
    """

    number: int
    relaxed: PreparedSelector | None
    parts: tuple[Conjunct, ...]


@dataclass(frozen=True, slots=True)
class CutClaims:
    """Claims, and what is left of them without the comparisons with individual attributes.

    Attributes:
        claims: the claims.
        relaxed: the claims without the comparisons.
        cuts: for each subrequest of `claims`, in order, the selectors that are cut.
        key: claims that can share a `RelaxedShape` have equal keys.
    """

    claims: ParsedClaims
    relaxed: ParsedClaims
    cuts: tuple[tuple[_CutSelector, ...], ...]
    key: Hashable

    @property
    def attributes(self) -> frozenset[str]:
        """Return the names, without domains, of the attributes whose comparisons are cut off."""
        parts = (part for cut in self.cuts for selector in cut for part in selector.parts)
        return frozenset([part.compares.attribute for part in parts if part.compares])


def cut_claims(
    parsed: ParsedClaims, selectors: SelectorProvider, is_individual: Callable[[str], bool], meter: Meter
) -> CutClaims | None:
    """Cut off the comparisons with individual attributes; return None if there is none.

    Args:
        parsed: the claims.
        selectors: divides selectors into parts.
        is_individual: returns whether an attribute (without its domain) has another value on each node.
        meter: counts the work.

    Raises:
        BudgetSpentError: the budget is spent.
    """
    if parsed.derived:
        return None
    cuts, requests = [], []
    for request in parsed.requests:
        alternatives = []
        for subrequest in request.alternatives:
            # With fewer candidates, a request for all devices can be served where it could not be before.
            wants_all = subrequest.count is None
            cut = () if wants_all else tuple(_cut_selectors(subrequest, selectors, is_individual, meter))
            cuts.append(cut)
            alternatives.append(_relax(subrequest, cut))
        requests.append(ParsedRequest(request.claim, request.name, tuple(alternatives)))
    if not any(cuts):
        return None
    key = (
        tuple(
            [
                (r.claim, r.name, tuple([(each.name, each.kind, each.count) for each in r.alternatives]))
                for r in requests
            ]
        ),
        tuple([encode(claim.spec.devices.constraints) for claim in parsed.claims]),
        tuple(
            [
                tuple([(each.number, tuple([_safety_key(part) for part in each.parts])) for each in cut])
                for cut in cuts
            ]
        ),
    )
    return CutClaims(parsed, ParsedClaims(parsed.claims, requests), tuple(cuts), key)


def _cut_selectors(
    subrequest: Subrequest, selectors: SelectorProvider, is_individual: Callable[[str], bool], meter: Meter
) -> Iterator[_CutSelector]:
    for number, selection in enumerate(subrequest.selections):
        parts = selectors.conjuncts(selection.expression) or ()
        cut = [part for part in parts if part.compares is not None and is_individual(part.compares.attribute)]
        if not cut:
            continue
        left = " && ".join([f"({part.expression})" for part in parts if part not in cut])
        relaxed = PreparedSelector(selection.label, left, selectors.compile(left, meter)) if left else None
        yield _CutSelector(number, relaxed, tuple(cut))


def _relax(subrequest: Subrequest, cut: Sequence[_CutSelector]) -> Subrequest:
    relaxed = {each.number: each.relaxed for each in cut}
    selections = [relaxed.get(number, selection) for number, selection in enumerate(subrequest.selections)]
    return replace(subrequest, selections=tuple([each for each in selections if each is not None]))


def _safety_key(part: Conjunct) -> Hashable:
    return part.compares and (part.compares.domain, part.compares.attribute, part.compares.classes)


class RelaxedShape:
    """What claims have in common that differ only in the literals of the comparisons that are cut off.

    Args:
        cut: the first of these claims.
        shape: the claim shape of the relaxed claims.
        evaluator: evaluates claims on one node.
    """

    def __init__(self, cut: CutClaims, shape: ClaimShape, evaluator: PartEvaluator) -> None:
        self.shape = shape
        self._cut = cut
        self._evaluator = evaluator
        self._masks = evaluator.candidate_masks
        self._position = (-1, 0)
        self._known: dict[str, int] = {}
        self._unsafe: set[str] = set()

    @property
    def is_usable(self) -> bool:
        """Return whether no comparison fails on the checked nodes, and only own pools serve what is cut."""
        return not self._unsafe

    def is_checked(self, name: str) -> bool:
        """Return whether a node was checked since its devices changed.

        Args:
            name: the node's name.
        """
        return self._known.get(name) == self._evaluator.fleet.members[name].content

    def check_nodes(self) -> None:
        """Check the nodes that changed.

        Raises:
            BudgetSpentError: the budget is spent. Another call continues.
        """
        fleet = self._evaluator.fleet
        for name in fleet.read_changes(self._position, self._known):
            member = fleet.members.get(name)
            if member is not None and self._known.get(name) == member.content:
                continue
            self._unsafe.discard(name)
            self._known.pop(name, None)
            if member is not None:
                self._evaluator.meter.spend(CLASSES, _CHECK)
                if not self._is_safe(member):
                    self._unsafe.add(name)
                self._known[name] = member.content
        self._position = fleet.epoch, len(fleet.journal)

    def bind(self, cut: CutClaims, index: Callable[[str], AttributeIndex]) -> "CutShape":
        """Return the shape of claims.

        Args:
            cut: the claims.
            index: returns the index of an attribute.
        """
        return CutShape(cut, self.shape, self._evaluator, index, self.is_checked)

    def _is_safe(self, member: FleetNode) -> bool:
        cuts = iter(self._cut.cuts)
        for request in self._cut.claims.requests:
            for subrequest in request.alternatives:
                cut = next(cuts)
                if cut and not all(self._is_safe_in(entry, subrequest, cut) for entry in member.entries):
                    return False
        return True

    def _is_safe_in(self, entry: Entry, subrequest: Subrequest, cuts: Sequence[_CutSelector]) -> bool:
        """Return whether no comparison fails on a device on which the rest of its selector is true.

        In a shared pool there must be no such device at all.
        """
        if entry.blueprint.problem is not None:
            return True
        pool, remaining = entry.pool, entry.reached
        cut_of = {each.number: each for each in cuts}
        for number, selection in enumerate(subrequest.selections):
            cut = cut_of.get(number)
            rest = selection if cut is None else cut.relaxed
            if rest is not None:
                remaining &= self._masks.select(rest, pool).matching
            if cut and remaining and entry is not pool:
                return False
            for part in cut.parts if cut else ():
                if part.compares and not self._masks.are_safe(part.compares, pool, remaining):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class CutShape:
    """Finds nodes for claims from whose selectors comparisons were cut off (see the module docstring).

    Attributes:
        cut: the claims.
        relaxed: the claim shape of the relaxed claims.
        evaluator: evaluates the claims on one node.
        index: returns the index of an attribute.
        is_checked: returns whether it is known that no comparison fails on a node. Other nodes are looked at in
            a later attempt.
    """

    cut: CutClaims
    relaxed: ClaimShape
    evaluator: PartEvaluator
    index: Callable[[str], AttributeIndex]
    is_checked: Callable[[str], bool]
    _known: dict[str, tuple[Hashable, BestNode | None]] = field(default_factory=dict)

    @property
    def lens(self) -> Lens:
        """Return the lens of the relaxed claims."""
        return self.relaxed.lens

    def undecided(self) -> Iterator[NodeClass]:
        """Yield the classes on which the search gave up."""
        return self.relaxed.undecided()

    def find_best(self, allows: Allows) -> BestNode | None:
        """Return the best allowed node; None if the claims fit on no allowed node.

        Args:
            allows: returns whether a node may be chosen.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        names = self._find_named_nodes()
        if names is not None:
            allowed = [name for name in names if allows is None or allows(name)]
            named = [each for each in map(self.find_on, allowed) if each is not None]
            return min(named, key=itemgetter(0, 1), default=None)
        best: BestNode | None = None
        is_partial = False
        try:
            for bound in self.relaxed.iter_bounds(allows):
                if best is not None and best[:2] <= bound:
                    break
                if not self.is_checked(bound[1]):
                    is_partial = True
                    continue
                found = self._find_after(bound[1])
                if found is not None and (best is None or found[:2] < best[:2]):
                    best = found
        except BudgetSpentError:
            if best is None:
                raise
        if best is None and (is_partial or self.relaxed.is_partial()):
            raise BudgetSpentError
        return best

    def _find_after(self, name: str) -> BestNode | None:
        """Return the verdict for a node, after that of the relaxed claims.

        The verdict is kept. So an attempt whose budget is spent goes on where the last one ended.
        """
        member = self.evaluator.fleet.members[name]
        state = member.content, self.lens.node_class(name).number, member.outlook.stamp
        known = self._known.get(name)
        if known is None or known[0] != state:
            relaxed = self.relaxed.find_on(name)
            # If the relaxed claims don't fit, the claims don't either.
            found = relaxed if relaxed is None or self._meets(relaxed) else self.find_on(name)
            known = self._known[name] = state, found
        return known[1]

    def find_on(self, name: str) -> BestNode | None:
        """Return the verdict for a node; None if the claims don't fit there.

        Args:
            name: the node's name.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        evaluator = self.evaluator
        member = evaluator.fleet.members[name]
        signature = NodeSignature(0, member.entries, member.outlook)
        view = view_shape(
            self.cut.claims,
            signature,
            member.node,
            evaluator.candidate_masks,
            evaluator.layout,
            evaluator.features,
        )
        verdict = evaluator.evaluate_view(view, signature, member.node, member.entries)
        if verdict is FAULTY:
            return BestNode((), name, verdict)
        return BestNode(verdict.rating, name, verdict) if isinstance(verdict, ShapeFits) else None

    def iter_fitting(self, names: Iterable[str]) -> Iterator[tuple[str, Preference]]:
        """Yield those of the nodes on which the claims fit, with their ratings.

        Args:
            names: the names of the nodes. They are read one by one.

        Raises:
            BudgetSpentError: the budget is spent.
            KeyError: a node is unknown.
        """
        for name in names:
            found = self.find_on(name)
            if found is not None and isinstance(found.verdict, ShapeFits):
                yield name, found.rating

    def _find_named_nodes(self) -> Collection[str] | None:
        """Return the only nodes on which some request can be served, if this is known."""
        cuts = iter(self.cut.cuts)
        for request in self.cut.claims.requests:
            of_alternatives = [self._find_nodes_of(next(cuts)) for _ in request.alternatives]
            known = [names for names in of_alternatives if names is not None]
            if len(known) == len(of_alternatives):
                return {name for names in known for name in names}
        return None

    def _find_nodes_of(self, cuts: Sequence[_CutSelector]) -> Collection[str] | None:
        """Return the only nodes that can have a device for an alternative, if this is known."""
        for part in (part for cut in cuts for part in cut.parts):
            if part.compares and part.compares.equals is not None:
                literal = part.compares.equals
                return self.index(part.compares.attribute).find_nodes((type(literal).__name__, literal))
        return None

    def _meets(self, relaxed: BestNode) -> bool:
        """Return whether the devices of the relaxed claims meet the comparisons."""
        if not isinstance(relaxed.verdict, ShapeFits):
            return False
        member = self.evaluator.fleet.members[relaxed.name]
        alternatives = dict(
            zip(
                [id(each) for request in self.relaxed.parsed.requests for each in request.alternatives],
                [each for request in self.cut.claims.requests for each in request.alternatives],
                strict=True,
            )
        )
        for choice in relaxed.verdict.choices:
            device = member.entries[choice.entry].pool.device(choice.device)
            selections = alternatives[id(choice.subrequest)].selections
            try:
                if not all(each.matches(device, self.evaluator.meter) for each in selections):
                    return False
            except EvaluationError:
                return False
        return True
