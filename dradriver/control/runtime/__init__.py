"""Runs the decisions of the controllers: caches, queue, loop, actions, executor.

| module | contents |
|---|---|
| `loop` | takes a key, asks for the next step, carries it out, repeats |
| `actions` | the writes as values, and what follows if the process dies after each |
| `executor` | carries out actions against the API server |
| `caches` | the cached objects and indexes over them |
| `work_queue` | a queue of keys with rate-limited retries |
| `metrics` | the metrics of the control plane |
| `bounded_set` | a set that forgets its oldest entries |
"""
