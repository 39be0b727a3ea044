"""Converts values to JSON and back.

- `codec`: decodes and encodes values, and writes canonical JSON like Go's encoder.
- `plain_input`: converts the arguments of constructors. Its errors name the object and the field.
- `strict`: finds the fields of a JSON object that a type does not have.
- `versions`: converts between `resource.k8s.io/v1` and its beta versions.
"""
