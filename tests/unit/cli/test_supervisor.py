"""A driver that exits is restarted. A driver with wrong settings is not."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dradriver.cli import supervisor
from dradriver.cli.supervisor import DriverProcess, Supervisor

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Script(DriverProcess):
    """A driver process that is a few lines of Python."""

    script: str = ""

    @property
    def command(self) -> Sequence[str]:
        return (sys.executable, "-c", self.script, str(self.directory))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_RESTART_SECONDS", (0.0, 0.0))


async def test_a_process_that_exits_is_restarted_and_its_last_log_line_is_reported(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    script = "import sys; print('out of memory', file=sys.stderr, flush=True); sys.exit(1)"
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], reported.put_nowait):
        lines = [await reported.get(), await reported.get(), await reported.get()]
    died = [line for line in lines if "ended" in line]
    assert len(died) == 2
    for line in died:
        assert line.startswith("driver loop on node-1 ended with exit code 1: out of memory; restarting")


async def test_sigkill_is_reported_without_a_log_line(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    script = (
        "import os, sys; print('2026-11-21 10:10:01,400 WARNING pool x: held', file=sys.stderr, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], reported.put_nowait):
        line = await reported.get()
    assert line.startswith("driver loop on node-1 was killed by signal 9 (SIGKILL); restarting")


async def test_the_log_of_an_earlier_process_is_not_reported(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(1)")
    process.log.write_text("Error: something of last week\n")
    async with Supervisor([process], reported.put_nowait):
        assert (await reported.get()).startswith("driver loop on node-1 ended with exit code 1; restarting")


SERVED = """
import json, os, pathlib, signal, socket, sys, time
folder = pathlib.Path(sys.argv[1]) / "plugins" / "loop.example.com"
folder.mkdir(parents=True, exist_ok=True)
path = folder / f"{os.getpid()}.sock"
served = socket.socket(socket.AF_UNIX)
served.bind(str(path))
served.listen()
status = json.dumps({"service": str(path), "missing": "", "since": time.time()})
(folder / "new").write_text(status)
(folder / "new").rename(folder / "dra.instance.json")
(pathlib.Path(sys.argv[1]) / "pids").open("w").write(str(os.getpid()))
signal.pause()
"""


async def test_a_killed_driver_that_is_ready_again_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, SERVED, name="loop.example.com")
    async with Supervisor([process], reported.put_nowait):
        os.kill(int(await asyncio.to_thread((tmp_path / "pids").read_text)), 9)
        assert "was killed by signal 9 (SIGKILL)" in await reported.get()
        await asyncio.to_thread((tmp_path / "pids").read_text)
        back = await reported.get()
    assert re.fullmatch(
        r"driver loop on node-1 is ready again at \d\d:\d\d:\d\d, \d+\.\d s after the exit", back
    )


async def test_an_info_line_is_not_reported_as_the_reason(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    script = "import os, sys; os.write(2, b'2026-11-21 10:10:01,400 INFO  up\\n'); os.kill(os.getpid(), 15)"
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], reported.put_nowait):
        assert (await reported.get()).startswith(
            "driver loop on node-1 was killed by signal 15 (SIGTERM); restarting"
        )


async def test_a_process_with_wrong_usage_is_not_restarted(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(2)")
    async with Supervisor([process], reported.put_nowait):
        assert "ended with exit code 2" in (line := await reported.get())
        assert "not restarted" in line


async def test_processes_are_terminated_and_awaited_at_the_end(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        # A handler could run just before `pause`, which would then wait without end.
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "folder.joinpath('fifo').open('w').write('up')\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "folder.joinpath('stopped').touch()\n"
    )
    os.mkfifo(tmp_path / "fifo")
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], lambda line: None):
        assert await asyncio.to_thread((tmp_path / "fifo").read_text) == "up"
    assert (tmp_path / "stopped").exists()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed")
async def test_a_process_does_not_outlive_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    child = (
        "import pathlib, signal, sys; fifo = pathlib.Path(sys.argv[1], 'fifo').open('w'); "
        "fifo.write('up\\n'); fifo.flush(); signal.pause()"
    )
    parent = (
        "import asyncio, pathlib\n"
        "from tests.unit.cli.test_supervisor import Script\n"
        "from dradriver.cli.supervisor import Supervisor\n"
        "async def main():\n"
        f"    folder = pathlib.Path({str(tmp_path)!r})\n"
        f"    process = Script('loop', 'node-1', folder / 'kubeconfig', folder, {child!r})\n"
        "    async with Supervisor([process], print):\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    supervisor_process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent, cwd=ROOT)
    fifo = await asyncio.to_thread((tmp_path / "fifo").open)
    assert await asyncio.to_thread(fifo.readline) == "up\n"
    supervisor_process.kill()
    await supervisor_process.wait()
    # End of file: the child, which can write, has exited.
    assert await asyncio.to_thread(fifo.read) == ""
    fifo.close()


def test_a_node_driver_gets_the_folders_and_identity_of_its_node(tmp_path: Path) -> None:
    process = DriverProcess("loop", "node-2", tmp_path / "kubeconfig", tmp_path / "node-2")
    assert process.command[1:5] == ("-m", "dradriver.cli", "run", "loop")
    assert f"--kubeconfig={tmp_path}/kubeconfig" in process.command
    assert "--node-name=node-2" in process.command
    assert f"--registry-dir={tmp_path}/node-2/plugins_registry" in process.command
