"""Explains why claims can or can't be allocated.

- `refusal`: a refusal with its reasons, and the hooks through which a search can be observed.
- `verdicts`: the candidates and reasons for each request on one node.
"""
