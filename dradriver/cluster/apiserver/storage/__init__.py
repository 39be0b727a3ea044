"""Stored objects and the controllers that maintain them.

| module | contents |
|---|---|
| `store` | objects in memory, their revisions and recent changes |
| `persist` | objects on disk, in SQLite |
| `watching` | watches |
| `garbage` | garbage collection by owners |
| `namespaces` | initial namespaces and the deletion of namespaces |
| `definitions` | custom resource definitions in force |
| `expiry` | removal of old events |
"""
