"""Behavior that programs on client-go rely on, on the embedded API server: one test for each check."""

import asyncio
import functools
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer

HERE = Path(__file__).parent
GO = shutil.which("go")
HISTORY = 50
pytestmark = [pytest.mark.skipif(GO is None, reason="Go is not installed"), pytest.mark.timeout(900)]


@functools.cache
def build() -> Path:
    """Build the program in the build folder that git ignores; Go builds only changes."""
    assert GO is not None
    target = HERE.parents[2] / "build" / "interop" / "clientgo"
    command = [GO, "build", "-o", str(target), "."]
    environment = os.environ | {"GOFLAGS": "-mod=mod"}
    done = subprocess.run(command, cwd=HERE, env=environment, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        pytest.fail(f"the program does not build: {done.stderr.decode()}")
    return target


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" not in metafunc.fixturenames:
        return
    names: list[str] = []
    # A build takes a minute, so it runs only with the tests.
    if GO is not None and "interop" in (metafunc.config.option.markexpr or ""):
        done = subprocess.run([build(), "-list"], check=True, capture_output=True, text=True)
        names = done.stdout.split()
    metafunc.parametrize("name", names or ["each"])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start an embedded API server with a short watch history in its own thread; return the kubeconfig."""
    folder = tmp_path_factory.mktemp("server")
    path, started, stopped = folder / "kubeconfig", threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        server = ApiServer(folder / "data", history=HISTORY, bookmark_seconds=0.2)
        await server.start()
        server.write_kubeconfig(path)
        loops.append(asyncio.get_running_loop())
        started.set()
        await stopped.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="api server")
    thread.start()
    assert started.wait(30), "the API server did not start"
    yield path
    loops[0].call_soon_threadsafe(stopped.set)
    thread.join()


def test_it_holds(kubeconfig: Path, name: str) -> None:
    command = [str(build()), "-kubeconfig", str(kubeconfig), "-history", str(HISTORY), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"ok {name}\n", done.stdout + done.stderr
