"""Preemption for devices: evict pods of lower priority whose claims hold the devices that a pod needs.

kube-scheduler asks an extender about preemption only for nodes on which its own plugins found victims. A node
that lacks only devices is never among them, so this room decides about such nodes itself. The rules are those
of kube-scheduler's plugin DefaultPreemption. The evictions are tried in the placer (a dry run), in the thread
that plans.

| module           | contents                                                                                |
|------------------|-----------------------------------------------------------------------------------------|
| `victims`        | values; the order of pods and nodes; counts violations of PodDisruptionBudgets          |
| `held_claims`    | finds the claims that evictions on a node would release, and the pods that use them     |
| `dry_run`        | selects the victims on one node, with the placer                                        |
| `decision`       | decides on which node to evict which pods, after no node suited a pod                   |
| `nominated_pods` | keeps the devices of a pod that waits for its victims from pods of lower priority       |
| `trimming`       | checks whether the victims of another scheduler give a pod its devices                  |
| `controller`     | carries out the evictions                                                               |
"""
