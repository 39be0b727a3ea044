"""Helpers for asyncio. Every layer that uses asyncio may import them.

Modules:

- `tasks`: runs background tasks that have an owner, and ends tasks.
- `iteration`: reads blocking iterators from the event loop.
- `event_loop`: the event loop of a driver's process.
- `bulk_load`: the garbage collector of a process with many objects that it keeps.
"""
