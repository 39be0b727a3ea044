"""Handle pods between two attempts: backoff, retries after changes, waits, and metrics.

| module           | contents                                                             |
|------------------|----------------------------------------------------------------------|
| `attempts`       | counts and times the attempts for each pod, and computes the backoff |
| `cycle_times`    | measures the time of extension points, and of plugins at Filter      |
| `queueing_hints` | decides which changes can help pods without a suitable node          |
| `waiting`        | pods that wait for binding conditions (KEP-5007) or for controllers  |
| `pending_pods`   | counts the pods without a node by the queue that contains them       |
| `metrics`        | the metrics of work queues                                           |
"""
