"""Reports of a node: metrics, readiness, logs, events, and files for `dradriver node status`.

Modules:

- `metrics`: the Prometheus metrics of the node plugin.
- `readiness`: why the process is not ready.
- `events`: Kubernetes events of claims and of the Node.
- `claim_outcomes`: logs and events about the kubelet's calls.
- `pool_reports`: metrics, events and the status file of pools.
- `pool_file`, `instance_file`: status files that other processes read.
- `status`: reads a plugin's recorded claims for `dradriver node status`.
- `background_failures`: counts and logs failures of background work.
- `deduplicate`: logs a repeated message at growing intervals.
- `redaction`: removes users' configuration and drivers' answers from messages.
- `log_context`: the fields of each log line during a call of the kubelet.
"""
