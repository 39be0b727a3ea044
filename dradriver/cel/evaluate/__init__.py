"""Runs programs on a stack machine. It computes Kubernetes' cost exactly and limits the steps of an evaluation.

- `containers`: instructions that make lists and maps, and loop over them.
- `cost`: computes costs by CEL's cost model, with Kubernetes' limit.
- `digits`: converts digits to numbers, with a limit on their count.
- `equality`: compares CEL values for equality and order.
- `errors`: defines the errors that the package raises, and those that it uses internally.
- `instructions`: all instructions of the machine that are not in `containers`.
- `machine`: the state of an evaluation, and the loop that executes a program.
- `membership`: sets that compare values by CEL's equality.
- `paths`: reads fields and elements.
- `regex`: compiles and matches RE2 patterns of limited size.
- `steps`: counts the work of an evaluation deterministically.
- `values`: represents CEL values as Python values.
"""
