"""Converts values to JSON and back.

- `codec`: decodes and encodes values; canonical JSON as Go writes it.
- `plain_input`: converts the arguments of constructors, with errors that name the object and the field.
- `strict`: finds the fields of a JSON object that a type does not have.
- `versions`: converts between `resource.k8s.io/v1` and its beta versions.
"""
