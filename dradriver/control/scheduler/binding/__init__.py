"""Reserve, PreBind, Bind and Unreserve: write the plan of a pod, wait until its devices are ready, or revert.

Other rooms import only these modules:

| module               | contents                                                                        |
|----------------------|---------------------------------------------------------------------------------|
| `binding_cycle`      | carries out plans, and tries pods again after changes that may help             |
| `plan_writes`        | the writes of a plan in order (PreBind, Bind), and their reversal (Unreserve)   |
| `failed_plan`        | why a plan failed, and the progress of Unreserve                                |
| `binding_conditions` | checks whether the devices of a claim are ready (KEP-5007)                      |

Own modules:

| module               | contents                                                                        |
|----------------------|---------------------------------------------------------------------------------|
| `unconfirmed_writes` | records plans whose last write must be read back                                |
| `object_changes`     | returns pods to the queue when their claims, contexts or nodes change           |
| `pods_of_claims`     | finds the pods that use a claim                                                 |
"""
