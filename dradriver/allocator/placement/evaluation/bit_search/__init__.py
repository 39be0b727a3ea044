"""A depth-first search on bit sets: computes the verdict of claims for one node without a `Supply`.

The devices of a node have one numbering (`Layout`), and a set of devices is an integer with one bit for each
device. The search takes the same first allocation as `device_choice.choose_devices`, in the same order. It
gives up after a few steps and for rare kinds of claims. Then the caller uses `choose_devices`.

    layout = Layout(blueprints)                                # once for nodes with equal pools
    shape = BitShape(layout, requests, constraints)            # once for each claim shape on these nodes
    verdict = search_bits(shape, entries, order)               # ShapeFits, REFUSED, or None: it gave up

Modules:

- `bit_shape`: the requests and constraints of a claim shape as bit sets.
- `layout`: the numbering of a node's devices, and their order of preference.
- `search`: the search.
- `symmetry`: finds equivalent choices.
"""

from dradriver.allocator.placement.evaluation.bit_search.bit_shape import (
    BitAlternative,
    BitConstraint,
    BitRequest,
    BitShape,
)
from dradriver.allocator.placement.evaluation.bit_search.layout import Layout, PoolEntry, Rank
from dradriver.allocator.placement.evaluation.bit_search.search import MAX_STEPS, search_bits

__all__ = [
    "MAX_STEPS",
    "BitAlternative",
    "BitConstraint",
    "BitRequest",
    "BitShape",
    "Layout",
    "PoolEntry",
    "Rank",
    "search_bits",
]
