"""The scheduler's half of classic DRA (KEP-3063): negotiate with the controllers that allocate claims.

A claim is classic if a vendor's controller allocates it, instead of the scheduler. The scheduler and the
controllers write to one `PodSchedulingContext` for each pod:

| the pod has                               | the scheduler writes                                  |
|-------------------------------------------|-------------------------------------------------------|
| exactly one unallocated claim             | the selected node and the potential nodes             |
| several, and a controller has not answered| the potential nodes only, then waits for the answers  |
| several, and all controllers have answered| the selected node, then waits for the allocations     |
| no suitable node                          | no node, so that no controller allocates              |
| no suitable node because of an allocation | the request to deallocate one claim                   |

Rule of this package: all modules except `context_controller` and `silent_controllers` are pure. `values` and
`negotiation` do not know the pipeline.

| module               | contents                                                               |
|----------------------|------------------------------------------------------------------------|
| `values`             | classic claims, their classes, and whether a pod may reserve them      |
| `negotiation`        | decides on the potential nodes and the selected node                   |
| `scheduling_steps`   | PreFilter, Filter and PostFilter for classic claims                    |
| `deallocation`       | decides which claim must be deallocated, so that its pod gets a node   |
| `allocation_wait`    | PreBind: select the node, and wait for the allocations                 |
| `contexts`           | decides when a context is created without a scheduler, and deleted     |
| `context_controller` | carries out the decisions of `contexts`                                |
| `silent_controllers` | reports in Events which controllers have never answered                |
"""

from dradriver.control.classic.values import (
    AwaitedClaim,
    ClassicClasses,
    ClassicObjects,
    explain_unreservable,
    is_controlled,
)

__all__ = ["AwaitedClaim", "ClassicClasses", "ClassicObjects", "explain_unreservable", "is_controlled"]
