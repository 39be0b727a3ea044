"""Progress of long operations, on stderr."""

import sys
from time import monotonic
from typing import Final

import click

__all__ = ["Progress"]

_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two lines. If an operation is shorter, it prints nothing."""


class Progress:
    """Counts steps: `with Progress(5000, "pods") as progress: progress.step()`."""

    def __init__(self, total: int, unit: str) -> None:
        self._total = total
        self._unit = unit
        self._done = 0
        self._shown_at = monotonic()
        self._shown = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)

    def step(self) -> None:
        """Count one more step."""
        self._done += 1
        now = monotonic()
        if now - self._shown_at < _INTERVAL_SECONDS:
            return
        self._shown_at, self._shown = now, True
        text = f"{self._done} of {self._total} {self._unit}"
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
        else:
            click.echo(text, err=True)
