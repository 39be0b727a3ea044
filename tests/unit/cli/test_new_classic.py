"""`dradriver new --classic` writes a project with a controller that passes its own tests."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dradriver.errors import DraError
from dradriver.kube import CLASSES, CONTROLLER_ALLOCATIONS, PODS, TEMPLATES, Client
from dradriver.model.core.workload import Pod
from tests.unit.cli.test_new import AS_INSTALLED, run

Command = Callable[..., Result]


def project(dradriver: Command, tmp_path: Path) -> Path:
    target = tmp_path / "project"
    result = dradriver("new", "my-led", "--classic", "--directory", str(target))
    assert result.exit_code == 0, result.output
    return target


def test_its_tests_pass(dradriver: Command, tmp_path: Path) -> None:
    outcome = run(project(dradriver, tmp_path), "pytest", "-q", "-p", "no:cacheprovider")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert " passed" in outcome.stdout
    assert "warning" not in (outcome.stdout + outcome.stderr).lower()


@pytest.mark.timeout(300)  # mypy without a cache reads all of dradriver
def test_its_code_passes_mypy_strict(dradriver: Command, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    target = project(dradriver, tmp_path)
    with (target / "pyproject.toml").open("a") as settings:
        settings.write(AS_INSTALLED)
    root = Path(__file__).parents[3]
    cache = str(root / ".mypy_cache/new")
    outcome = run(target, "mypy", "dradriver_my_led", "tests", "--cache-dir", cache, MYPYPATH=str(root))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_no_placeholder_is_left(dradriver: Command, tmp_path: Path) -> None:
    files = [path for path in project(dradriver, tmp_path).rglob("*") if path.is_file()]
    assert {"controller.py", "manager.py", "driver.py", "py.typed", ".gitignore"} <= {
        path.name for path in files
    }
    assert [path for path in files if "@" in path.read_text().replace("@pytest", "")] == []


def test_its_manifests_are_valid(dradriver: Command, tmp_path: Path) -> None:
    manifests = project(dradriver, tmp_path) / "manifests"
    result = dradriver("validate", "-f", str(manifests))
    assert result.exit_code == 0, result.output
    (device_class,) = yaml.safe_load_all((manifests / "class.yaml").read_text())
    assert device_class["spec"]["selectors"] == [{"cel": {"expression": "false"}}]


def test_both_processes_run_by_their_names(dradriver: Command, tmp_path: Path) -> None:
    text = (project(dradriver, tmp_path) / "pyproject.toml").read_text()
    assert 'my-led = "dradriver_my_led:MyLedDriver"' in text
    assert 'my-led-controller = "dradriver_my_led:MyLedController"' in text


@pytest.mark.timeout(120)  # four processes start
async def test_its_pod_runs_with_a_card_that_the_controller_attached(
    dradriver: Command, tmp_path: Path
) -> None:
    target, data = project(dradriver, tmp_path), tmp_path / "data"
    drivers = [f"--driver=dradriver_my_led:{name}" for name in ("MyLedDriver", "MyLedController")]
    command = (sys.executable, "-m", "dradriver.cli", "up", f"--data={data}", "--runtime=process", *drivers)
    path = os.pathsep.join([str(target), str(Path(__file__).parents[3])])
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONPATH": path}, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        await wait_served(data / "kubeconfig")
        async with await Client.connect(str(data / "kubeconfig")) as client:
            await apply(client, target / "manifests")
            while await phase(client) != "Running":
                await asyncio.sleep(0.1)
            while "MY_LED_DEVICE_0=card-0:exclusive" not in await client.logs("my-led-1", "default"):
                await asyncio.sleep(0.1)
            await client.delete(PODS, "my-led-1", "default")
            while (await client.list(CONTROLLER_ALLOCATIONS, into=dict)).items:
                await asyncio.sleep(0.1)
        state = json.loads((data / "simulation/my-led-manager.json").read_text())
        assert state == {"nodes": {}, "cards": {}}
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()


async def wait_served(kubeconfig: Path) -> None:
    while True:
        with contextlib.suppress(DraError):
            async with await Client.connect(str(kubeconfig)) as client:
                await client.list(CONTROLLER_ALLOCATIONS, into=dict)
                return
        await asyncio.sleep(0.1)


async def apply(client: Client, folder: Path) -> None:
    kinds = {"DeviceClass": CLASSES, "ResourceClaimTemplate": TEMPLATES, "Pod": PODS}
    for name in ("class.yaml", "pod.yaml"):
        for document in yaml.safe_load_all((folder / name).read_text()):
            resource = kinds[document["kind"]]
            await client.create(resource, document, "default" if resource.namespaced else "", into=dict)


async def phase(client: Client) -> str:
    pod = await client.get(PODS, "my-led-1", "default", into=Pod)
    return pod.status.phase
