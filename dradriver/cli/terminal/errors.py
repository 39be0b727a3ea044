"""Errors become one line that says what to do, and an exit code."""

from typing import Final

import click

from dradriver.errors import DraError, UsageError

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "ErrorGroup"]

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""What a shell reports of a program that Ctrl-C has ended."""


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
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (`| head`) has seen enough.
            raise SystemExit(0) from None
