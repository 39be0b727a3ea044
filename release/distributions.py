"""Build the wheel and the source distribution of each project, as a package index shows them.

    python -m release.distributions DIST --url https://git.example.com/dradriver

The tree does not know where it is hosted. A copy of each project gets the addresses of the repository: the
project URLs of its metadata, and absolute links in its README, which an index shows outside of the tree. Needs
the packages of requirements/release.txt.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_LINK: Final = re.compile(r"(?P<text>\]\(|^\[[^]]+\]: )(?P<target>[^)\s#:]+)(?P<rest>[#)\s])", re.MULTILINE)


def find_projects() -> list[Path]:
    """Return the folders of all projects, the SDK first."""
    return [ROOT, *sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))]


def find_version() -> str:
    """Return the version of all projects."""
    text = (ROOT / "dradriver" / "version.py").read_text()
    found = re.search(r'VERSION: Final = "([^"]+)"', text)
    assert found is not None
    return found[1]


def make_links_absolute(text: str, folder: PurePosixPath, tree: str) -> str:
    """Return a Markdown text without links that are relative to its file.

    Args:
        text: the text.
        folder: the folder of the file in the repository.
        tree: address of the repository's root at one version.
    """

    def replace(found: re.Match[str]) -> str:
        parts: list[str] = []
        for part in (folder / found["target"]).parts:
            parts[-1:] = [] if part == ".." else [*parts[-1:], part]
        return f"{found['text']}{tree}/{'/'.join(parts)}{found['rest']}"

    return _LINK.sub(replace, text)


def project_urls(url: str, tree: str, folder: PurePosixPath) -> Mapping[str, str]:
    """Return the project URLs of a distribution's metadata."""
    return {
        "Homepage": url,
        "Source": f"{tree}/{folder}" if folder.parts else tree,
        "Documentation": f"{tree}/docs",
        "Changelog": f"{tree}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


def copy_project(project: Path, target: Path, url: str) -> None:
    """Copy the tracked files of a project, with the addresses of the repository in metadata and README."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."),
        cwd=project, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (project / name).is_file():
            shutil.copy2(project / name, target / name)
    folder, tree = PurePosixPath(project.relative_to(ROOT)), f"{url}/blob/v{find_version()}"
    readme = target / "README.md"
    readme.write_text(make_links_absolute(readme.read_text(), folder, tree))
    lines = [f'{name} = "{address}"' for name, address in project_urls(url, tree, folder).items()]
    configuration = target / "pyproject.toml"
    text = configuration.read_text()
    assert "[project.urls]" not in text, project
    configuration.write_text(f"{text}\n[project.urls]\n" + "\n".join(lines) + "\n")


def build(dist: Path, url: str) -> None:
    """Build all distributions into a folder, and write SHA256SUMS beside them."""
    dist.mkdir(parents=True, exist_ok=True)
    for project in find_projects():
        with tempfile.TemporaryDirectory() as folder:
            copy_project(project, Path(folder), url)
            command = (
                sys.executable,
                "-m",
                "build",
                "--no-isolation",
                "--outdir",
                str(dist.absolute()),
                folder,
            )
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
    built = sorted(path for path in dist.iterdir() if path.suffix in {".whl", ".gz"})
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (dist / "SHA256SUMS").write_text("".join(sums))


def main() -> None:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("dist", type=Path, help="folder for the distributions")
    parser.add_argument(
        "--url", required=True, help="address of the repository, such as https://HOST/OWNER/NAME"
    )
    arguments = parser.parse_args()
    build(arguments.dist, arguments.url.rstrip("/"))


if __name__ == "__main__":
    main()
