"""Reports of a node: metrics, readiness, logs, events, and files for `dradriver node status`.

Modules:

- `metrics`: the Prometheus metrics of the node plugin.
- `readiness`: reports why the process is not ready.
- `events`: writes Kubernetes events of claims and of the Node.
- `claim_outcomes`: writes logs and events about the claims in the kubelet's calls.
- `pool_reports`: writes metrics, events and the status file of pools.
- `pool_file`, `instance_file`: status files that other processes read.
- `status`: reads a plugin's recorded claims for `dradriver node status`.
- `background_failures`: counts and logs failures of background work.
- `deduplicate`: selects when a repeated message is logged again.
- `redaction`: removes users' configuration and drivers' answers from messages.
- `log_context`: adds fields to each line that is logged during a call of the kubelet.
"""
