"""Registered drivers: registration, connections and calls.

| module | contents |
|---|---|
| `registration` | watches the registry folder and registers drivers |
| `plugin_store` | the registered drivers, and when their ResourceSlices are deleted |
| `plugin` | one registered instance of a driver and its gRPC calls |
| `services` | chooses the gRPC services of a driver |
| `slices` | deletes the ResourceSlices of an absent driver |
"""
