"""Extended resources that devices serve (KEP-5004): from a pod's `example.com/gpu: 2` to a claim, and back.

Law of this package: pure functions of values. What a node's device plugin advertises is counted (`room`), what
it does not advertise is asked of devices: `classes` says of which class, `requests` which requests that makes
and which container gets which of them, `special` what the claim that holds them looks like. `share` puts these
together for one pod on one node, `scoring` says how full a node would be. `findings` tells people what can't
work, or not as they may think. Nothing here writes, and nothing here decides on a node.

Words: a pod *asks for amounts* of extended resources; the *special claim* is the one that a scheduler makes for
what devices have to serve; its *mappings* say which container gets which request.
"""

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.names import IMPLICIT_PREFIX, implicit_name, is_extended
from dradriver.control.extended.requests import amounts_of, completed
from dradriver.control.extended.scoring import ResourceUse, ScoringStrategy
from dradriver.control.extended.share import Share, Unservable, allocatable, share_of
from dradriver.control.extended.special import (
    Special,
    discard_step,
    is_left,
    is_special_for,
    owners_of,
    special_for,
    usable_again,
)

__all__ = [
    "IMPLICIT_PREFIX",
    "ClassesByResource",
    "ResourceUse",
    "ScoringStrategy",
    "Share",
    "Special",
    "Unservable",
    "allocatable",
    "amounts_of",
    "completed",
    "discard_step",
    "implicit_name",
    "is_extended",
    "is_left",
    "is_special_for",
    "owners_of",
    "share_of",
    "special_for",
    "usable_again",
]
