"""HTTP requests, from the bytes of a request to the bytes of the answer.

| module | contents |
|---|---|
| `handlers` | processes one request step by step |
| `parse` | verb, resource and options of a request |
| `decoding` | converts a request's body to an object |
| `encoding` | converts stored objects to answers: plain, `Table`, metadata only |
| `reads` | get, list and the lines of a watch |
| `writes` | create, replace, patch, apply |
| `patches` | JSON patch, merge patch, strategic merge patch |
| `deletion` | delete with preconditions, grace and propagation |
| `binding` | `pods/binding` |
| `reviews` | access reviews and self subject reviews |
| `selectors` | label and field selectors |
| `tables` | the columns of `kubectl get` |
"""
