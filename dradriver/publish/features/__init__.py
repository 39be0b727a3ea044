"""Fields that the API server drops because a feature gate is off, and the pools to publish without them.

Modules:

- `api_features`: the fields that the server stores and drops, by dry runs.
- `dropped_fields`: which fields are behind gates, and what is unsafe without them (pure).
- `fallback`: chooses between the wanted pool, the driver's fallback and the safe part.
"""
