"""The claims of pods: create them from templates, reserve them, release them and delete them.

| module       | contents                                                                 |
|--------------|--------------------------------------------------------------------------|
| `controller` | the resource claim controller, which makes and carries out the decisions |
| `ownership`  | the decisions for each pod and claim, as pure functions                  |
| `pod_claims` | finds the claims that belong to a pod, and generates their names         |
"""
