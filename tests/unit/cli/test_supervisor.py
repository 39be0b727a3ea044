"""A driver that dies is started again; one that was started wrongly is not."""

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
    monkeypatch.setattr(supervisor, "_PAUSES", (0.0, 0.0))


async def test_a_process_that_dies_is_started_again_and_its_last_words_are_told(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    script = "import sys; print('out of memory', file=sys.stderr, flush=True); sys.exit(1)"
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], said.put_nowait):
        lines = [await said.get(), await said.get(), await said.get()]
    died = [line for line in lines if "ended" in line]
    assert len(died) == 2
    for line in died:
        assert line.startswith("driver loop on node-1 ended with exit code 1: out of memory; starting it again")


async def test_kill_9_is_told_as_such_without_a_line_of_the_log(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    script = (
        "import os, sys; print('2026-11-21 10:10:01,400 WARNING pool x: held', file=sys.stderr, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], said.put_nowait):
        line = await said.get()
    assert line.startswith("driver loop on node-1 was killed by signal 9 (SIGKILL); starting it again")


async def test_what_an_earlier_process_wrote_is_no_reason(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(1)")
    process.log.write_text("Error: something of last week\n")
    async with Supervisor([process], said.put_nowait):
        assert (await said.get()).startswith("driver loop on node-1 ended with exit code 1; starting it again")


SERVED = """
import json, os, pathlib, signal, socket, sys, time
folder = pathlib.Path(sys.argv[1]) / "plugins" / "loop.example.com"
folder.mkdir(parents=True, exist_ok=True)
path = folder / f"{os.getpid()}.sock"
served = socket.socket(socket.AF_UNIX)
served.bind(str(path))
served.listen()
told = json.dumps({"service": str(path), "missing": "", "since": time.time()})
(folder / "new").write_text(told)
(folder / "new").rename(folder / "dra.instance.json")
(pathlib.Path(sys.argv[1]) / "pids").open("w").write(str(os.getpid()))
signal.pause()
"""


async def test_when_a_killed_driver_is_ready_again_that_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    said: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, SERVED, name="loop.example.com")
    async with Supervisor([process], said.put_nowait):
        os.kill(int(await asyncio.to_thread((tmp_path / "pids").read_text)), 9)
        assert "was killed by signal 9 (SIGKILL)" in await said.get()
        await asyncio.to_thread((tmp_path / "pids").read_text)
        back = await said.get()
    assert re.fullmatch(
        r"driver loop on node-1 is back: ready at \d\d:\d\d:\d\d, \d+\.\d s after it died", back
    )


async def test_what_was_logged_while_all_was_well_is_no_reason(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    script = "import os, sys; os.write(2, b'2026-11-21 10:10:01,400 INFO  up\\n'); os.kill(os.getpid(), 15)"
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], said.put_nowait):
        assert (await said.get()).startswith(
            "driver loop on node-1 was killed by signal 15 (SIGTERM); starting it again"
        )


async def test_a_process_that_was_used_wrongly_is_not_started_again(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(2)")
    async with Supervisor([process], said.put_nowait):
        assert "ended with exit code 2" in (line := await said.get())
        assert "not started again" in line


async def test_at_the_end_processes_are_asked_to_stop_and_awaited(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "signal.signal(signal.SIGTERM, lambda *_: (folder.joinpath('stopped').touch(), sys.exit(0)))\n"
        "folder.joinpath('fifo').open('w').write('up')\n"
        "signal.pause()\n"
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
    # The end of the file: whoever could write has ended.
    assert await asyncio.to_thread(fifo.read) == ""
    fifo.close()


def test_a_node_driver_gets_the_folders_and_identity_of_its_node(tmp_path: Path) -> None:
    process = DriverProcess("loop", "node-2", tmp_path / "kubeconfig", tmp_path / "node-2")
    assert process.command[1:5] == ("-m", "dradriver.cli", "run", "loop")
    assert f"--kubeconfig={tmp_path}/kubeconfig" in process.command
    assert "--node-name=node-2" in process.command
    assert f"--registry-dir={tmp_path}/node-2/plugins_registry" in process.command
