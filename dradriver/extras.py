"""The extras of the distribution: their modules, and the error for an extra that is not installed.

`dradriver` alone requires what a driver's process on a node needs. Everything else is an extra.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from dradriver.errors import DraError

__all__ = ["EXTRAS", "MissingExtraError", "require"]

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("cryptography", "re2", "rich"),
    "kubeconfig": ("kubernetes",),
    "scheduler": ("re2",),
}
"""The modules that an extra brings, by the extra's name in `pyproject.toml`."""


class MissingExtraError(DraError):
    """A feature needs an extra that is not installed."""


def require(extra: str, user: str) -> None:
    """Check that an extra is installed, without importing its modules.

    Args:
        extra: a name in `EXTRAS`.
        user: the command or feature that needs the extra, for the message: `dradriver up`.

    Raises:
        MissingExtraError: a module of the extra is not installed. The message has the command that installs it.
    """
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingExtraError(
            f"{user} needs {', '.join(missing)}, not installed here: pip install 'dradriver[{extra}]'"
        )
