"""Stored objects and the controllers that maintain them.

| module | contents |
|---|---|
| `store` | objects in memory, their revisions and recent changes |
| `persist` | objects on disk, in SQLite |
| `watching` | watches |
| `state_controller` | the base of controllers that work on the state |
| `garbage` | garbage collection by owners |
| `namespaces` | initial namespaces and the deletion of namespaces |
| `definitions` | serves the kinds of custom resource definitions |
| `expiry` | removal of old events |
"""
