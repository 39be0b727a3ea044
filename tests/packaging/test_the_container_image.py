"""The Containerfile, compared with the tree that it copies from, and with the wheels that it installs."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

from dradriver.version import VERSION
from dradriver_gpu_mig.host.hook import PROGRAM, SHIPPED
from tests.e2e.bed import programs

ROOT: Final = Path(__file__).parents[2]
CONTAINERFILE: Final = (ROOT / "packaging" / "Containerfile").read_text()
DRIVERS: Final = ("drivers/fabric_cxl", "drivers/fpga", "drivers/gpu_mig", "examples/loop")
LINES: Final = re.sub(r"\\\n", " ", CONTAINERFILE).splitlines()


def copied() -> list[str]:
    """Return the paths of the tree that the build stage copies."""
    lines = [line.split() for line in LINES if line.startswith("COPY ") and "--from" not in line]
    return [source for words in lines for source in words[1:-1]]


def test_all_copied_paths_exist_and_are_not_ignored() -> None:
    ignored = [
        line for line in (ROOT / ".containerignore").read_text().splitlines() if line[:1] not in {"", "#"}
    ]
    assert ignored[0] == "*"
    taken_back = {line[1:] for line in ignored if line.startswith("!")}
    assert set(copied()) == taken_back
    assert all((ROOT / path).exists() for path in copied())


def project(folder: Path) -> dict[str, Any]:
    """Return the table `project` of a folder's pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


def test_the_wheels_need_nothing_else_of_the_tree() -> None:
    sdk = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = sdk["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {*packages, "pyproject.toml", sdk["project"]["readme"], *sdk["project"]["license-files"]}
    files = {
        "requirements/build.txt",
        "requirements/image.txt",
        "packaging/remove_programs.py",
        "packaging/nvidia-ctk",
    }
    assert needed | files | {"drivers", "examples/loop"} == set(copied())


def test_every_driver_of_the_tree_is_in_it_and_no_extra() -> None:
    projects = (str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/pyproject.toml"))
    drivers = {each for each in projects if "dradriver.drivers" in project(ROOT / each).get("entry-points", {})}
    assert drivers == set(DRIVERS)
    assert f'ARG DRIVERS="{" ".join(DRIVERS)}"' in LINES


def test_each_package_that_it_installs_has_a_hash() -> None:
    (line,) = (line for line in LINES if "--requirement" in line)
    (wheels,) = (line for line in LINES if "pip wheel" in line)
    assert line.count("--requirement ") == line.count("--require-hashes ") == 2
    assert wheels.count("--no-deps --no-index") == 2


def test_nvidias_hook_is_built_as_the_tests_build_it_and_put_where_the_driver_finds_it() -> None:
    """A static program that go.sum pins: it runs on nodes with any C library."""
    source = programs.PROGRAMS["nvidia-cdi-hook"]
    (line,) = (line for line in LINES if "go build" in line)
    assert f"-tags {source.tags} -ldflags '{source.ldflags}'" in line
    assert line.endswith(f" -o /{PROGRAM} {source.package}")
    assert programs.source_folder(source.module) == ROOT / "packaging/nvidia-ctk"
    assert f"COPY --from=hook /{PROGRAM} /opt/dradriver/{SHIPPED.relative_to(sys.prefix)}" in LINES


def test_it_does_not_run_as_root_and_needs_no_shell() -> None:
    final = LINES[max(index for index, line in enumerate(LINES) if line.startswith("FROM ")) :]
    assert final[0] == "FROM scratch"
    assert [line for line in final if line.startswith("USER ")] == ["USER 65532:65532"]
    assert [line for line in final if line.startswith("ENTRYPOINT ")] == ['ENTRYPOINT ["dradriver"]']
    assert not [line for line in final if line.startswith("RUN ")]


def test_image_chart_and_projects_are_of_one_version() -> None:
    version = VERSION
    assert {project(ROOT / driver)["version"] for driver in DRIVERS} == {version}
    chart = yaml.safe_load((ROOT / "packaging" / "chart" / "Chart.yaml").read_text())
    assert f"ARG VERSION={version}" in LINES
    assert chart["appVersion"] == version


def test_projects_have_the_same_license() -> None:
    """Each has a copy, because a link out of the project is broken in its source distribution."""
    for driver in DRIVERS:
        assert not (ROOT / driver / "LICENSE").is_symlink()
        assert (ROOT / driver / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_projects_name_the_same_versions_of_python() -> None:
    classifiers = [project(folder)["classifiers"] for folder in (ROOT, *(ROOT / each for each in DRIVERS))]
    versions = [{each for each in named if "Python :: 3." in each} for named in classifiers]
    assert all(each == versions[0] for each in versions)


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    projects = [project(folder) for folder in (ROOT, *(ROOT / driver for driver in DRIVERS))]
    extras = [extra for table in projects for extra in table.get("optional-dependencies", {}).values()]
    wanted = {each for table in projects for each in table["dependencies"]} | {
        e for extra in extras for e in extra
    }
    assert {re.split("[>=[]", each)[0].strip() for each in wanted} - {"dradriver"} <= pinned
