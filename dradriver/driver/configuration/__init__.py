"""Opaque configuration of claims and classes, as classes of the author.

- `config`: `Config`, the base class of opaque configuration, and its decoding.
- `config_errors`: lists all errors of a configuration, not only the first.
"""
