"""Runs programs: a stack machine with exact cost, limited steps and errors as values.

- `containers`: instructions that make lists and maps, and loop over them.
- `cost`: CEL's cost model with Kubernetes' limit.
- `digits`: bounded conversion of digits to numbers.
- `equality`: equality and order of CEL values.
- `errors`: the errors of selectors, inside and outside of the package.
- `instructions`: the other instructions of the machine.
- `machine`: the state of an evaluation, and the loop that executes a program.
- `membership`: sets of values with CEL's equality.
- `paths`: reads fields and elements.
- `regex`: RE2 patterns with bounded size.
- `steps`: a deterministic count of the work of an evaluation.
- `values`: CEL values as Python values.
"""
