"""Explains why claims can or can't be allocated.

- `refusal`: defines refusals with reasons, and the hooks that observe a search.
- `verdicts`: returns, for each request on one node, the candidates and the reasons against other devices.
"""
