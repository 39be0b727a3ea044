"""Write `requirements/*.txt`: packages with the hashes of their files.

`build.txt` has the build backend, `image.txt` the packages of the image, and `release.txt` the tools of a
release. `python -m release.requirements` needs the dependency group `release`. The versions are those of
constraints.txt. pip checks the hashes of a file only if it has hashes for all packages, and rejects them for
editable installs, so constraints.txt itself has no hashes.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "requirements"
_HEADER: Final = "# Written by `make requirements`. The versions are those of constraints.txt.\n"


def read_project(folder: Path) -> Mapping[str, Any]:
    """Return the content of a folder's pyproject.toml."""
    return tomllib.loads((folder / "pyproject.toml").read_text())


def read_needs() -> Mapping[str, Sequence[str]]:
    """Return the requirements of each file, without the projects of this repository."""
    folders = [ROOT, *sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))]
    projects = [read_project(folder) for folder in folders]
    image = [each for project in projects for each in project["project"]["dependencies"]]
    # The driver fabric-cxl-pools needs Redfish. Image and wheels have no other extra.
    image += [
        each for p in projects for each in p["project"].get("optional-dependencies", {}).get("manager", [])
    ]
    backends = [each for project in projects for each in project["build-system"]["requires"]]
    release = [*projects[0]["dependency-groups"]["release"], *backends]
    packages = [each for each in image if each != "dradriver"]
    return {"build.txt": backends, "image.txt": packages, "release.txt": release}


def compile_file(needs: Sequence[str]) -> str:
    """Return a file of requirements with hashes, for all supported versions of Python."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "-"),
        *("--python-version", "3.11", "--constraint", str(ROOT / "constraints.txt")),
        *("--no-header", "--no-annotate", "--no-config"),
    ]
    done = subprocess.run(command, input="\n".join(needs), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return _HEADER + done.stdout


def read_pins(text: str) -> Mapping[str, str]:
    """Return the version of each package of a file of requirements or constraints."""
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def main() -> None:
    """Write the files."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, needs in read_needs().items():
        (FOLDER / name).write_text(compile_file(needs))


if __name__ == "__main__":
    main()
