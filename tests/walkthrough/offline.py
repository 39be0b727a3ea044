"""Replaces the commands that need a package index: the project runs from its folder, with this Python."""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Final

from tests.walkthrough.reader import ROOT, Handler, Reader

__all__ = ["HANDLERS"]


def _make_environment(reader: Reader, command: str) -> str:
    """Make a virtual environment that has only the commands of a reader."""
    folder = reader.working_folder / command.rsplit(maxsplit=1)[-1]
    (folder / "bin").mkdir(parents=True)
    (folder / "packages").mkdir()
    packages = quote(f"{ROOT}:{folder}/packages")
    activate = f"export VIRTUAL_ENV={folder} PATH={folder}/bin:$PATH PYTHONPATH={packages}:$PYTHONPATH\n"
    (folder / "bin/activate").write_text(activate)
    for name, program in {"python": "", "dradriver": " -m dradriver.cli"}.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {quote(sys.executable)}{program} "$@"\n')
        script.chmod(0o755)
    return ""


def _install(reader: Reader, command: str) -> str:
    """Put the folder of a project on the search path and write its metadata, as for `pip install -e`."""
    if " -e " not in command:
        return ""  # dradriver itself
    project = reader.working_folder
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    packages = Path(reader.run("echo $VIRTUAL_ENV").stdout.strip(), "packages")
    metadata = packages / f"{table['name'].replace('-', '_')}-{table['version']}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n"
    )
    entries = "".join(
        f"[{group}]\n{''.join(f'{name} = {target}{chr(10)}' for name, target in points.items())}"
        for group, points in table["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text(entries)
    reader.keep(f"export PYTHONPATH={project}:$PYTHONPATH")
    return ""


HANDLERS: Final[Mapping[str, Handler]] = {
    r"python3 -m venv ": _make_environment,
    r"pip install ": _install,
}
