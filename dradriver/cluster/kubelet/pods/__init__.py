"""The pods of a node, from binding to deletion.

| module | contents |
|---|---|
| `pods` | starts a worker for each pod, and finds logs |
| `pod_worker` | executes the steps of one pod |
| `pod_plan` | the next step of a pod, as a pure function |
| `pod_status` | computes a pod's status from the states of its containers |
| `pod_types` | pods as the kubelet reads them |
| `container_runner` | starts, watches and stops the containers of one pod |
| `container_state` | the state of one container and its transitions |
| `expansion` | expands `$(NAME)` in commands and variables |
| `logs` | reads a container's log |
"""
