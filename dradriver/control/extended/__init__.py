"""Extended resources that devices serve (KEP-5004): make a claim from a pod's `example.com/gpu: 2`.

Rule of this package: all functions are pure. They write no objects and do not choose a node. If a node's device
plugin advertises a resource, the resource is counted on this node. Any other resource is requested from
devices, in a claim.

| module             | contents                                                                     |
|--------------------|------------------------------------------------------------------------------|
| `classes`          | finds the device class that serves a resource                                |
| `requests`         | converts a pod's amounts to requests of a claim, and maps them to containers |
| `resource_split`   | divides a pod's amounts between the device plugins and the devices of a node |
| `special`          | the special claim that holds the requests                                    |
| `node_usage`       | the amounts that the pods on each node request                               |
| `scheduling_steps` | PreFilter, Filter and Score for extended resources                           |
| `scoring`          | scores nodes by how full they would be                                       |
| `findings`         | reports names and pods that cannot work, or that do not work as expected     |

Terms: a pod *requests amounts* of extended resources. The *special claim* is the claim that a scheduler creates
for the amounts that devices must serve. The claim's *mappings* name the requests of each container.
"""

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.requests import complete_requests, requested_amounts
from dradriver.control.extended.resource_split import Unservable, split_resources
from dradriver.control.extended.scoring import ScoringStrategy
from dradriver.control.extended.special import (
    SpecialClaimPlan,
    discard_step,
    is_special_for,
    new_special_claim,
    special_claim_owners,
)

__all__ = [
    "ClassesByResource",
    "ScoringStrategy",
    "SpecialClaimPlan",
    "Unservable",
    "complete_requests",
    "discard_step",
    "is_special_for",
    "new_special_claim",
    "requested_amounts",
    "special_claim_owners",
    "split_resources",
]
