"""Pods between attempts: backoff, wake-ups, waits for binding conditions, and metrics.

| module | contents |
|---|---|
| `attempts` | number of attempts of each pod, and its setback |
| `attempt_times` | durations of the parts of one attempt |
| `queueing_hints` | the fields whose change can help a pod that waits |
| `waiting` | pods that wait for binding conditions (KEP-5007) |
| `metrics` | the metrics of work queues |
"""
