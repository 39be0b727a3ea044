"""Run the decisions of the controllers: caches, queue, loop, actions, executor.

| module              | contents                                                                    |
|---------------------|-----------------------------------------------------------------------------|
| `loop`              | takes a key, gets the next step, carries it out, and repeats                |
| `actions`           | the writes as values, and what happens if the process dies after each write |
| `executor`          | carries out actions against the API server                                  |
| `allocation_writer` | writes allocations, and checks that all their fields are stored             |
| `classic_writer`    | writes contexts, and requests to deallocate (KEP-3063)                      |
| `gated_fields`      | the fields that an API server drops if their feature gate is off            |
| `caches`            | the cached objects of the cluster, and indexes of them                      |
| `optional_cache`    | a cache of a resource that may not be served                                |
| `work_queue`        | a queue of keys with rate-limited retries                                   |
| `metrics`           | the metrics of the control plane                                            |
| `bounded_set`       | a set that forgets its oldest entries                                       |
"""
