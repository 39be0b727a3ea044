"""Suites of pytest's that run inside of a guest."""

import sys
from pathlib import Path
from typing import Final

_PLUGINS: Final = (
    word for name in ("cacheprovider", "xdist", "hypothesispytest") for word in ("-p", f"no:{name}")
)
_OPTIONS: Final = ("-v", "-rs", "--color", "no", "--noconftest", "--basetemp", "/run/suites", *_PLUGINS)


def suite_command(suite: Path, *options: str) -> tuple[str, ...]:
    """Return the command that runs the tests of a file, as `write_command` takes it."""
    return (sys.executable, "-m", "pytest", *_OPTIONS, *options, str(suite))
