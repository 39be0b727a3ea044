"""The nouns of resource.k8s.io as values.

Law of this package: values only. Frozen, compared by content, shaped as the v1 API writes them (so that
JSON and values are one step apart), and the rules that a value must obey, each written once. No I/O, no
clock, no randomness, nothing that knows a client, a driver or a loop.
"""
