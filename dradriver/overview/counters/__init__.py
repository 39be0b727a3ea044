"""Computes how devices use counter sets and shared capacities (KEP-4815, KEP-5075).

- `counter_use`: computes the use of counter sets, and which devices still fit.
- `largest`: finds the largest devices that still fit.
- `lanes`: arranges counters as rows that are drawn to scale.
- `shares`: computes how far the capacities of a shared device are used.
"""
