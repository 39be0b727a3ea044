"""Finds the manifests that a driver's package contains."""

import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from dradriver.runner import load_any

__all__ = ["manifest_folder", "package_of", "read_manifests"]

_CLASSES: Final = ("class.yaml", "classes.yaml")
_PODS: Final = ("pod.yaml", "pods.yaml")


def package_of(entry: str) -> str:
    """Return the top-level package of an installed driver.

    Args:
        entry: name of the driver's entry point, or `module:Class`.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: the driver's package cannot be imported.
    """
    return load_any(entry).__module__.partition(".")[0]


def manifest_folder(package: str) -> Traversable:
    """Return the folder of a driver's manifests: in the installed package, or beside the package in a checkout.

    Args:
        package: the driver's top-level package.
    """
    installed = files(package) / "manifests"
    return installed if installed.is_dir() else Path(str(files(package))).parent / "manifests"


def read_manifests(package: str, prefix: str = "") -> str:
    """Return the class and the pods of a driver from its folder `manifests`, as YAML.

    Only the files `class.yaml` or `classes.yaml` and `pod.yaml` or `pods.yaml` are read, because the folder may
    contain other examples, and manifests that install the driver.

    Args:
        package: the driver's top-level package or module, which is imported.
        prefix: text before the names of the files.

    Returns:
        The texts of the files, the class first; empty if the folder does not have both.
    """
    if not hasattr(sys.modules[package], "__path__"):
        return ""  # a driver that is one module has no folder of its own
    folder = manifest_folder(package)
    texts = [
        file.read_text(encoding="utf-8").strip()
        for names in (_CLASSES, _PODS)
        for name in names
        if (file := folder / f"{prefix}{name}").is_file()
    ]
    return "\n---\n".join(texts) + "\n" if len(texts) == 2 else ""
