"""Helpers for asyncio, usable by every layer that awaits.

Modules:

- `tasks`: owned background tasks, and how tasks are ended.
- `iteration`: iterators that block, read from the event loop.
"""
