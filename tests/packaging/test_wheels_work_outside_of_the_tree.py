"""All wheels are built, installed into a fresh environment outside of the tree, and used there.

The environment uses the third-party packages of the one that runs the tests, so no package index is needed.
"""

import asyncio
import os
import signal
import subprocess
import sys
import sysconfig
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from dradriver.cluster import EmbeddedCluster
from dradriver.kube import SLICES
from dradriver.model.resource.slices import ResourceSlice

pytestmark = pytest.mark.timeout(300)

ROOT: Final = Path(__file__).parents[2]
PROJECTS: Final = (ROOT, *sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml")))
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a program that must succeed; return its output."""
    environment = {**ENVIRONMENT, **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder: Path, *projects: Path) -> list[Path]:
    """Build the wheels of projects with the build backend of this environment."""
    run(*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, *projects, cwd=folder)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return the wheels of all projects by the first part of their names."""
    built = build(tmp_path_factory.mktemp("wheels"), *PROJECTS)
    return {path.name.partition("-")[0]: path for path in built}


@pytest.fixture(scope="module")
def home(wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the virtual environment `venv`, in which the wheels are installed."""
    home = tmp_path_factory.mktemp("home")
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    paths = {"base": str(home / "venv"), "platbase": str(home / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    # Searched after the environment's own packages, without editable installs, which are .pth files too.
    (packages / "third-party.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install(home, *wheels.values())
    return home


def install(home: Path, *built: Path) -> None:
    python = home / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--force-reinstall")
    run(*PIP, "--python", python, "install", *options, *built, cwd=home)


def dradriver(home: Path, *words: str | Path, **variables: str) -> str:
    """Run the command of the environment; return its output."""
    return run(home / "venv" / "bin" / "dradriver", *words, cwd=home, **variables)


def test_a_wheel_has_one_package_and_its_manifests(wheels: Mapping[str, Path]) -> None:
    assert set(wheels) == {
        "dradriver",
        "dradriver_fabric_cxl",
        "dradriver_fpga",
        "dradriver_gpu_mig",
        "dradriver_loop",
    }
    for name, wheel in wheels.items():
        files = ZipFile(wheel).namelist()
        assert {file.partition("/")[0] for file in files} == {name, f"{name}-0.1.0.dist-info"}
        assert f"{name}/py.typed" in files
        assert f"{name}-0.1.0.dist-info/licenses/LICENSE" in files
        assert not [file for file in files if file.startswith("drivers/")]
        source = next(project for project in PROJECTS if (project / name).is_dir())
        manifests = {path.name for path in (source / "manifests").glob("*")}
        assert {f"{name}/manifests/{each}" for each in manifests} <= set(files)


def test_the_wheel_has_all_files_of_the_dashboard(wheels: Mapping[str, Path]) -> None:
    page = "dradriver/monitor/dashboard/page"
    expected = {f"{page}/{path.name}" for path in (ROOT / page).iterdir()}
    assert f"{page}/index.html" in expected
    assert expected <= set(ZipFile(wheels["dradriver"]).namelist())


def test_packages_come_from_the_wheels(home: Path) -> None:
    code = "import dradriver, dradriver_fpga, dradriver_gpu_mig, dradriver_loop as loop\n"
    code += "print(dradriver.__file__, dradriver_fpga.__file__, dradriver_gpu_mig.__file__, loop.__file__)"
    paths = run(home / "venv" / "bin" / "python", "-c", code, cwd=home).split()
    assert len(paths) == 4
    assert all(Path(path).is_relative_to(home / "venv") for path in paths)


def test_a_new_project_is_built_installed_and_found(home: Path, tmp_path: Path) -> None:
    dradriver(home, "new", "led", "--directory", tmp_path / "project")
    (tmp_path / "wheels").mkdir()
    install(home, *build(tmp_path / "wheels", tmp_path / "project"))
    installed = dradriver(home, "run", "--help").rpartition("Installed drivers:")[2]
    assert installed.split() == ["fabric-cxl,", "fabric-cxl-pools,", "fpga,", "gpu-mig,", "led,", "loop."]


def test_a_demo_shows_simulated_gpus(home: Path) -> None:
    shown = dradriver(home, "demo", "--driver", "gpu-mig", "--runtime", "process")
    assert "CDI spec" in shown
    assert "done" in shown.splitlines()[-1]


@pytest.mark.parametrize("name", ["fpga", "gpu-mig"])
async def test_a_driver_runs_beside_a_kubelet(home: Path, cluster: EmbeddedCluster, name: str) -> None:
    node = cluster.node_dir("node-1")
    process = await asyncio.create_subprocess_exec(
        home / "venv" / "bin" / "dradriver", "run", name, "--node-name=node-1",
        f"--kubeconfig={cluster.node_kubeconfig('node-1')}", f"--plugins-dir={node / 'plugins'}",
        f"--registry-dir={node / 'plugins_registry'}", f"--cdi-dir={node / 'cdi'}",
        cwd=home, env={**ENVIRONMENT, "DRADRIVER_SIMULATE": "always"}, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    try:
        client = cluster.client()
        listing = await client.list(SLICES, into=ResourceSlice)
        if not listing.items:
            await anext(client.watch(SLICES, into=ResourceSlice, resource_version=listing.resource_version))
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, errors.decode()
