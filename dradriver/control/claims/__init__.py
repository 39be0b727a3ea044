"""The claims of pods: created from templates, reserved, released and deleted.

| module | contents |
|---|---|
| `controller` | the resource claim controller: runs the decisions for each pod and claim |
| `ownership` | the decisions, as pure functions |
| `pod_claims` | which claims belong to a pod |
| `generated_names` | name suffixes that are the same at every attempt |
"""
