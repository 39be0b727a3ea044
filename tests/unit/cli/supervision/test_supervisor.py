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

from dradriver.cli.supervision import DriverProcess, ProcessMessage, Supervisor, supervisor

ROOT = Path(__file__).parents[4]


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
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
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
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
        line = await reported.get()
    assert line.startswith("driver loop on node-1 was killed by signal 9 (SIGKILL); restarting")


async def test_the_log_of_an_earlier_process_is_not_reported(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(1)")
    process.log.write_text("Error: something of last week\n")
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
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
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
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
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
        assert (await reported.get()).startswith(
            "driver loop on node-1 was killed by signal 15 (SIGTERM); restarting"
        )


async def test_a_process_with_wrong_usage_is_not_restarted(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(2)")
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
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
        "from tests.unit.cli.supervision.test_supervisor import Script\n"
        "from dradriver.cli.supervision import Supervisor\n"
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


RESTARTED = """
import os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
(folder / "pids").open("w").write(str(os.getpid()))
signal.sigwait({signal.SIGTERM})
"""


async def test_a_restart_ends_the_process_with_sigterm_and_starts_another(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "", tmp_path / "kubeconfig", tmp_path, RESTARTED)
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))) as supervised:
        first = await asyncio.to_thread((tmp_path / "pids").read_text)
        supervised.restart("other", "driver.py changed")
        supervised.restart("loop", "driver.py changed")
        assert await asyncio.to_thread((tmp_path / "pids").read_text) != first
        assert await reported.get() == "driver loop for the cluster is restarted: driver.py changed"
        assert (await reported.get()).startswith("driver loop for the cluster was restarted at ")
    assert reported.empty()


async def test_a_process_with_wrong_usage_starts_again_when_a_restart_is_requested(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(2)")
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))) as supervised:
        assert "not restarted because the settings are wrong" in await reported.get()
        supervised.restart("loop", "driver.py changed")
        assert await reported.get() == "driver loop on node-1 is restarted: driver.py changed"
        assert "was restarted at" in await reported.get()
        assert "not restarted because the settings are wrong" in await reported.get()


async def test_a_restart_does_not_wait_for_the_backoff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_RESTART_SECONDS", (3600.0, 3600.0))
    reported: asyncio.Queue[str] = asyncio.Queue()
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, "import sys; sys.exit(1)")
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))) as supervised:
        assert "restarting in 3600 s" in await reported.get()
        supervised.restart("loop", "driver.py changed")
        assert await reported.get() == "driver loop on node-1 is restarted: driver.py changed"
        assert "was restarted at" in await reported.get()
        assert "restarting in 3600 s" in await reported.get()


async def test_messages_about_equal_exits_have_equal_texts(tmp_path: Path) -> None:
    """The time in a log line and the seconds until the restart differ. Equal texts are counted."""
    reported: asyncio.Queue[ProcessMessage] = asyncio.Queue()
    script = (
        "import sys, time; print(f'2026-11-21 10:10:{time.time_ns() % 100:02},400 ERROR no card', "
        "file=sys.stderr, flush=True); sys.exit(1)"
    )
    process = Script("loop", "node-1", tmp_path / "kubeconfig", tmp_path, script)
    async with Supervisor([process], reported.put_nowait):
        texts = [message.text for message in [await reported.get(), await reported.get(), await reported.get()]]
    ended = {text for text in texts if "ended" in text}
    assert ended == {"driver loop on node-1 ended with exit code 1: ERROR no card"}


async def test_a_process_that_cannot_be_started_is_reported_and_tried_again(tmp_path: Path) -> None:
    reported: asyncio.Queue[str] = asyncio.Queue()
    folder = tmp_path / "node-1"
    folder.touch()  # the log cannot be created
    process = Script("loop", "node-1", tmp_path / "kubeconfig", folder, "import sys; sys.exit(1)")
    async with Supervisor([process], lambda message: reported.put_nowait(str(message))):
        failed = f"driver loop on node-1 cannot be started: {folder}: File exists; restarting in 0 s"
        assert (await reported.get()).startswith(failed)
        folder.unlink()
        while "ended with exit code 1" not in await reported.get():
            pass
