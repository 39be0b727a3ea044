"""Prints each error as one line, and sets the exit code."""

from typing import Final

import click

from dradriver.errors import DraError, UsageError

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "ErrorGroup"]

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""Exit code that a shell reports if Ctrl-C ended a program."""


class _UsageException(click.ClickException):
    exit_code = USAGE


class ErrorGroup(click.Group):
    """A group that prints every `DraError` as `Error: ...`, never as a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. click prints the exceptions that this method raises, and exits."""
        try:
            return super().invoke(ctx)
        except DraError as error:
            kind = _UsageException if isinstance(error, UsageError) else click.ClickException
            raise kind(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # The program that reads the output, such as `| head`, has closed the pipe.
            raise SystemExit(0) from None
