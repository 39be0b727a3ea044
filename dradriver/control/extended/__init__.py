"""Extended resources that devices serve (KEP-5004): from a pod's `example.com/gpu: 2` to a claim, and back.

Law of this package: pure functions of values. It writes nothing and decides on no node. A resource that a
node's device plugin advertises is counted there. Any other resource is requested from devices.

| module | contents |
|---|---|
| `names` | which resource names of a container devices may serve |
| `classes` | which device class serves which resource |
| `requests` | the requests that a pod's amounts make, and the request of each container |
| `share` | divides a pod's amounts between the device plugins and the devices of a node |
| `special` | the special claim that holds the requests |
| `node_usage` | how much the pods on each node take |
| `scheduling_steps` | PreFilter, Filter and Score for extended resources |
| `scoring` | how full a node would be |
| `findings` | reports names and pods that can't work, or not as expected |

Terms: a pod *asks for amounts* of extended resources. The *special claim* is the claim that a scheduler creates
for the amounts that devices have to serve. Its *mappings* map each container to its requests.
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
