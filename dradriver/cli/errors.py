"""Errors become one line that says what to do, and an exit code."""

from typing import Final

import click

from dradriver.errors import DraError, UsageError

__all__ = ["FAILED", "USAGE", "ErrorGroup"]

FAILED: Final = 1
USAGE: Final = 2


class _UsedWrongly(click.ClickException):
    exit_code = USAGE


class ErrorGroup(click.Group):
    """A group that prints every `DraError` as `Error: ...`, never as a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command; click prints the exceptions raised here and exits."""
        try:
            return super().invoke(ctx)
        except DraError as error:
            kind = _UsedWrongly if isinstance(error, UsageError) else click.ClickException
            raise kind(str(error)) from error
        except BrokenPipeError:
            # The reader (`| head`) has seen enough.
            raise SystemExit(0) from None
