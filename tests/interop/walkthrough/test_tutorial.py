"""The tutorial's pages are correct: their code is the project, its tests pass, and its pods get their devices.

`tests/e2e/walkthrough` executes all pages on a node, with all tests of the project after each page.
"""

import re
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import yaml

from dradriver.cli.files import read_files
from dradriver.cli.validation.command import findings
from tests.walkthrough.offline import HANDLERS
from tests.walkthrough.pages import PAGES, Command, File, read_page
from tests.walkthrough.reader import Handler, Reader, opened_folder


def run_own_tests(reader: Reader, command: str) -> str:
    """Run the tests of the driver's features. The contract's tests run after the last page of code."""
    done = reader.run(f"{command} -k 'not TestContract'")
    assert done.returncode == 0, done.stdout
    return done.stdout


FIRST_PAGES: Final[Mapping[str, Handler]] = {**HANDLERS, r"python -m pytest": run_own_tests}


def test_it_has_seven_pages_and_each_leads_to_the_next() -> None:
    names = list(PAGES)
    assert [name[0] for name in names] == list("1234567")
    for name, following in pairwise(names):
        assert PAGES[name].rstrip().splitlines()[-1].endswith(f"]({following})")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_starts_with_what_the_reader_has_and_gets(name: str) -> None:
    _, _, start = PAGES[name].partition("\n\n")
    assert re.match(r"\*\*You have\*\*: .*?\*\*You get\*\*: ", start, re.DOTALL)


@pytest.mark.timeout(300)  # it starts about twenty programs
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_driver_of_the_pages_works_in_the_embedded_cluster() -> None:
    """The project of page 2 is the one whose README `test_readme_of_a_new_driver.py` reads."""
    with opened_folder() as folder, Reader(folder, HANDLERS, up_options="--runtime process") as reader:
        with reader.replacing(FIRST_PAGES):
            reader.read(PAGES["2-new.md"], name="2-new.md", until="Start a pod")
            reader.keep("export KUBECONFIG=~/.local/share/dradriver/kubeconfig")
            for name in ("3-partitions.md", "4-configuration.md"):
                reader.read(PAGES[name], name=name)
        reader.read(PAGES["5-health.md"], name="5-health.md")
        assert " passed" in reader.printed["python -m pytest -q"]


def test_the_manifests_of_the_last_pages_are_valid(tmp_path: Path) -> None:
    files = [part for part in read_page(PAGES["7-helm.md"]) if isinstance(part, File)]
    manifests = [part for part in files if part.path.startswith("manifests/")]
    assert manifests
    for manifest in manifests:
        path = tmp_path / "manifest.yaml"
        path.write_text(manifest.text)
        assert [str(each) for each in findings(read_files([str(path)])) if each.severity == "error"] == []
    (values,) = [yaml.safe_load(part.text) for part in files if part.path == "values.yaml"]
    assert values["drivers"]["ramdisk"]["webhook"]["enabled"]


def test_the_last_pages_have_the_commands_of_podman_and_helm() -> None:
    for name, program in {"6-image.md": "podman", "7-helm.md": "helm"}.items():
        commands = [part.text for part in read_page(PAGES[name]) if isinstance(part, Command)]
        assert any(command.startswith(f"{program} ") for command in commands)
