"""Commands run in this process, as a user would type them."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from dradriver.cli import main

Command = Callable[..., Result]


@pytest.fixture
def dradriver() -> Command:
    """Runs `dradriver` with these arguments. `stdin` is its standard input."""

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
