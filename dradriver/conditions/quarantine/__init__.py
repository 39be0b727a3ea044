"""Keep failed devices from new claims by taints in the published slices.

Modules:

- `bad_devices`: the failed devices, their reasons and time limits (pure).
- `quarantine`: publishes the taints, and removes them after their time.
"""
