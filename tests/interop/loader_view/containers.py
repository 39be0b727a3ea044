"""Containers with a root of `roots`, which runc starts with our edits."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver.cluster.runtime.base import ContainerSpec
from dradriver.cluster.runtime.cdi_apply import apply_edits
from dradriver.cluster.runtime.oci import build_oci_config
from dradriver.model.cdi import add_bind_options
from tests.interop.loader_view import roots

__all__ = ["find_missing", "make_bundle", "run"]

_SECONDS: Final = 60


def find_missing() -> str:
    """Return why no container can be started here; "" if it may work."""
    if os.geteuid() != 0:
        return "only root starts containers"
    if shutil.which("runc") is None:
        return "runc is not installed"
    return roots.find_missing()


def make_bundle(distribution: str, folder: Path) -> Path:
    """Return a bundle whose root file system is a copy of a distribution's.

    Args:
        distribution: a key of `roots.ROOTS`.
        folder: the parent of the bundle.

    Raises:
        UnavailableError: the packages can't be fetched.
    """
    bundle = folder / f"{distribution}-bundle"
    shutil.copytree(roots.get_root(distribution), bundle / "rootfs", symlinks=True)
    return bundle


def run(
    bundle: Path, edits: dra.ContainerEdits, *command: str, read_only: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command in a container, which a container runtime has created with the edits."""
    name = f"loader-view-{os.getpid()}"
    folder = bundle.parent
    spec = ContainerSpec(
        id=name, owner="tests", folder=folder, log=folder / "log", cdi_folder=folder, argv=command, hostname="x"
    )
    config = build_oci_config(spec)
    config["root"]["readonly"] = read_only
    apply_edits(config, add_bind_options(edits))
    (bundle / "config.json").write_text(json.dumps(config))
    start = ("runc", "--root", str(folder / "runc"), "run", "--bundle", str(bundle), name)
    return subprocess.run(start, capture_output=True, text=True, check=False, timeout=_SECONDS)
