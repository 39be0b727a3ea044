"""The packages of the drivers that are shown: which are installed, and where their manifests are."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dradriver.cli.demonstration.shows import SHOWS
from dradriver.errors import DraError
from dradriver.runner import driver_names, load_any

__all__ = ["installed_shows", "manifest_folder", "package_of"]


def installed_shows() -> tuple[str, ...]:
    """Lists the shows whose drivers are installed, in the order of `SHOWS`.

    Raises:
        DraError: none is.
    """
    found = tuple(entry for entry in SHOWS if entry in driver_names())
    if not found:
        known = ", ".join(f"dradriver-{entry}" for entry in SHOWS)
        raise DraError(f"no driver that can be shown is installed ({known}): pip install dradriver-loop")
    return found


def package_of(entry: str) -> str:
    """Names the top-level package of an installed driver.

    Args:
        entry: the name of its entry point.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: its package can't be imported.
    """
    return load_any(entry).__module__.partition(".")[0]


def manifest_folder(package: str) -> Traversable:
    """Finds a driver's manifests: inside of an installed package, beside the package in a checkout.

    Args:
        package: the driver's top-level package.
    """
    installed = files(package) / "manifests"
    return installed if installed.is_dir() else Path(str(files(package))).parent / "manifests"
