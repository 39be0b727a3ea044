"""All distributions are built, checked and installed: with hashes, and from a package index."""

import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

ROOT: Final = Path(__file__).parents[2]
URL: Final = "https://git.example.com/dradriver"
NAMES: Final = {"dradriver", "dradriver-fabric-cxl", "dradriver-fpga", "dradriver-gpu-mig", "dradriver-loop"}
pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_environment(folder: Path, requirements: str) -> Path:
    """Return the Python of a new virtual environment with the packages of a file, whose hashes pip checks."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "-r",
        ROOT / "requirements" / requirements,
    )
    return python


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with the tools of a release."""
    return make_environment(tmp_path_factory.mktemp("tools") / "venv", "release.txt")


@pytest.fixture(scope="module")
def dist(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all distributions."""
    folder = tmp_path_factory.mktemp("dist")
    run(tools, "-m", "release.distributions", folder, "--url", URL)
    return folder


def read_metadata(dist: Path) -> dict[str, Message]:
    """Return the metadata of the wheels by the names of the distributions."""
    found = {}
    for wheel in dist.glob("*.whl"):
        with ZipFile(wheel) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = Parser().parsestr(archive.read(name).decode())
        found[metadata["Name"]] = metadata
    return found


def test_each_project_has_a_wheel_and_a_source_distribution(dist: Path) -> None:
    assert set(read_metadata(dist)) == NAMES
    assert {path.name.partition("-0.")[0].replace("_", "-") for path in dist.glob("*.tar.gz")} == NAMES


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == 2 * len(NAMES)


def test_twine_accepts_the_metadata(tools: Path, dist: Path) -> None:
    run(tools, "-m", "twine", "check", "--strict", *dist.glob("*.whl"), *dist.glob("*.tar.gz"))


def test_an_index_page_has_addresses_and_no_link_into_the_tree(dist: Path) -> None:
    for name, metadata in read_metadata(dist).items():
        labels = {each.partition(",")[0] for each in metadata.get_all("Project-URL", [])}
        assert labels == {"Homepage", "Source", "Documentation", "Changelog", "Issues"}, name
        text = str(metadata.get_payload())
        targets = re.findall(r"\]\(([^)]*)\)|^\[[^]]+\]: (\S+)", text, re.MULTILINE)
        assert all(re.match("https://|#", inline or reference) for inline, reference in targets), name


def test_links_of_an_index_page_lead_to_files_of_the_tree(dist: Path) -> None:
    for metadata in read_metadata(dist).values():
        text = str(metadata.get_payload())
        for path in re.findall(rf"{re.escape(URL)}/blob/v[^/]+/([^)\s#]*)", text):
            assert (ROOT / path).exists(), path


def test_wheels_run_in_a_fresh_environment_with_the_packages_of_the_image(dist: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv", "image.txt")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", *dist.glob("*.whl"))
    run(python, "-m", "pip", "check")
    dradriver = tmp_path / "venv" / "bin" / "dradriver"
    assert run(dradriver, "--version", cwd=tmp_path).split()[-1] in str(next(dist.glob("dradriver_loop*.whl")))
    assert "fabric-cxl" in run(dradriver, "run", "--help", cwd=tmp_path)


def test_a_source_distribution_can_be_installed_and_shows_a_pod_with_a_device(
    dist: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    sources = ("--find-links", dist, "--no-binary", "dradriver,dradriver-gpu-mig")
    constraints = ("--constraint", ROOT / "constraints.txt")
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        *sources,
        *constraints,
        "dradriver[cluster]",
        "dradriver-gpu-mig",
    )
    dradriver = tmp_path / "venv" / "bin" / "dradriver"
    shown = run(dradriver, "demo", "--driver", "gpu-mig", "--runtime", "process", cwd=tmp_path)
    assert "done" in shown.splitlines()[-1]
