"""The process of the extender: it listens, waits for its term as leader, and serves the verbs.

Modules:

- `process`: waits for a term as leader, and runs the verbs in it.
- `kube_scheduler_lease`: follows the Lease of the kube-scheduler in the same pod.
- `verb_calls`: the calls in progress, which end before another process leads.
- `server`: answers the requests of kube-scheduler, probes and Prometheus.
- `metrics`: metrics of requests and of leadership.
- `profiling`: shows the tasks of the process, and profiles it.
- `assembly`: builds a process from its settings.
"""
