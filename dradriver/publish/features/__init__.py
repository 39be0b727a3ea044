"""Handles fields that the API server drops because a feature gate is off.

Modules:

- `api_features`: finds out by dry runs which fields the server stores and which it drops.
- `dropped_fields`: lists the fields behind gates, and decides which devices are unsafe without them (pure).
- `fallback`: chooses between the wanted pool, the driver's fallback and the safe part.
"""
