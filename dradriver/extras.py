"""The extras of the distribution: what they bring, and the error of a caller whose extra is not installed.

`dradriver` alone asks for what a driver's process on a node needs. Everything else is an extra.
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
    """Something was used whose extra is not installed."""


def require(extra: str, user: str) -> None:
    """Checks that an extra is installed. The modules are looked for, and not imported.

    Args:
        extra: a name in `EXTRAS`.
        user: what needs the extra, as the message names it: `dradriver up`.

    Raises:
        MissingExtraError: a module of the extra is not installed. The message has the command that installs it.
    """
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingExtraError(
            f"{user} needs {', '.join(missing)}, not installed here: pip install 'dradriver[{extra}]'"
        )
