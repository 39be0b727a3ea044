"""Turns errors into one line and an exit code."""

from typing import Final

import click

from dradriver.errors import DraError, UsageError

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "ErrorGroup"]

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""Exit code that a shell reports for a program ended by Ctrl-C."""


class _UsedWrongly(click.ClickException):
    exit_code = USAGE


class ErrorGroup(click.Group):
    """A group that prints every `DraError` as `Error: ...`, never as a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. click prints the exceptions raised here and exits."""
        try:
            return super().invoke(ctx)
        except DraError as error:
            kind = _UsedWrongly if isinstance(error, UsageError) else click.ClickException
            raise kind(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (`| head`) has closed the pipe.
            raise SystemExit(0) from None
