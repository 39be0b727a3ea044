"""Device taints (KEP-5055): DeviceTaintRules and the eviction of pods.

| module                | contents                                                     |
|-----------------------|--------------------------------------------------------------|
| `eviction`            | computes when a pod must be evicted, as a pure function      |
| `eviction_controller` | evicts pods and writes the status of rules                   |
| `rule_status`         | computes the status of a DeviceTaintRule, as a pure function |
| `published_taints`    | finds the NoExecute taints in the newest slices of each pool |
| `tainted_slices`      | adds the taints of DeviceTaintRules to slices                |
"""
