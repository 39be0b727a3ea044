"""Packages of the drivers that can be shown: which are installed, and where their manifests are."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dradriver.cli.demonstration.shows import SHOWS
from dradriver.errors import DraError
from dradriver.runner import driver_names, load_any

__all__ = ["installed_shows", "manifest_folder", "package_of"]


def installed_shows() -> tuple[str, ...]:
    """Return the shows whose drivers are installed, in the order of `SHOWS`.

    Raises:
        DraError: none is installed.
    """
    found = tuple(entry for entry in SHOWS if entry in driver_names())
    if not found:
        known = ", ".join(f"dradriver-{entry}" for entry in SHOWS)
        raise DraError(f"no driver that can be shown is installed ({known}): pip install dradriver-loop")
    return found


def package_of(entry: str) -> str:
    """Return the top-level package of an installed driver.

    Args:
        entry: name of its entry point.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: its package cannot be imported.
    """
    return load_any(entry).__module__.partition(".")[0]


def manifest_folder(package: str) -> Traversable:
    """Return the folder of a driver's manifests: in an installed package, or beside it in a checkout.

    Args:
        package: the driver's top-level package.
    """
    installed = files(package) / "manifests"
    return installed if installed.is_dir() else Path(str(files(package))).parent / "manifests"
