"""`requirements/*.txt` have the versions of constraints.txt, and hashes; links of a README become absolute."""

import re
from pathlib import Path, PurePosixPath

import pytest

from release.distributions import make_links_absolute
from release.requirements import FOLDER, ROOT, read_needs, read_pins

FILES = sorted(FOLDER.glob("*.txt"))
OTHER_SYSTEMS = {"colorama", "pywin32-ctypes"}
"""Packages that only Windows needs."""


def normal_name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[>=<!; ]", requirement)[0]).lower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_versions_are_those_of_the_constraints(path: Path) -> None:
    constraints = read_pins((ROOT / "constraints.txt").read_text())
    pins = read_pins(path.read_text())
    assert {name: version for name, version in pins.items() if name not in OTHER_SYSTEMS} == {
        name: constraints.get(name, "not in constraints.txt") for name in pins if name not in OTHER_SYSTEMS
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_package_has_hashes(path: Path) -> None:
    packages = re.split(r"^(?=[a-zA-Z])", path.read_text(), flags=re.MULTILINE)[1:]
    assert packages
    assert not [each for each in packages if "--hash=sha256:" not in each]


def test_every_need_of_a_project_is_in_its_file() -> None:
    needs = read_needs()
    assert {path.name for path in FILES} == set(needs)
    for path in FILES:
        assert {normal_name(each) for each in needs[path.name]} <= set(read_pins(path.read_text()))


def test_relative_links_become_absolute_and_others_stay() -> None:
    text = "[a](docs/a.md#x) [b](../b.md) [c](https://c.example.com) [d](#d)\n[e]: ../../e.md\n"
    assert make_links_absolute(text, PurePosixPath("drivers/fpga"), "https://git.example.com/p/blob/v1") == (
        "[a](https://git.example.com/p/blob/v1/drivers/fpga/docs/a.md#x) "
        "[b](https://git.example.com/p/blob/v1/drivers/b.md) [c](https://c.example.com) [d](#d)\n"
        "[e]: https://git.example.com/p/blob/v1/e.md\n"
    )
