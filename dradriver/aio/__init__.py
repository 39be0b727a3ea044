"""Helpers for asyncio that every layer which awaits may use: owned tasks, and iterators that block."""
