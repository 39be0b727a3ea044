"""Kills a process before each change that it makes to the files, and checks that the next process converges.

`python -m tests.drivers.gpu_mig.mps.kill_rounds FOLDER` forks a process for each round. All state of simulated
daemons is in files, so the changes of the files are all changes. With KILLS in the environment (`make faults`),
each moment is followed by each way to go on; otherwise by one of them, in turn.
"""

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

from dradriver_gpu_mig.mps import DaemonState, MpsDaemonStore
from dradriver_gpu_mig.mps.steps import ObservedDaemon
from tests.drivers.gpu_mig.mps.benches import GPU, SimulatedBench, make_daemon, open_daemons

CLAIM = "claim-1"
CHANGES = {"os.mkdir", "os.rmdir", "os.remove", "os.rename"}

Action = Callable[[SimulatedBench], Awaitable[object]]


async def start(bench: SimulatedBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM))


async def start_with_other_limits(bench: SimulatedBench) -> None:
    await open_daemons(bench).start(make_daemon(CLAIM, limit=512))


async def stop(bench: SimulatedBench) -> None:
    await open_daemons(bench).stop(CLAIM)


async def recover(bench: SimulatedBench) -> None:
    await open_daemons(bench).recover({CLAIM})


async def restart(bench: SimulatedBench) -> None:
    bench.end(CLAIM)
    await recover(bench)


async def nothing(bench: SimulatedBench) -> None:
    """The action starts on an empty node."""


def die_at(moment: int) -> None:
    """Let this process die before its n-th change of a file."""
    left = moment

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and arguments[1] == "wb"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


def dies(bench: SimulatedBench, action: Action, moment: int) -> bool:
    """Execute an action in a process that dies before its n-th change, and return whether it died."""
    pid = os.fork()
    if pid == 0:
        die_at(moment)
        asyncio.run(_await(action(bench)))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


async def _await(awaitable: Awaitable[object]) -> None:
    await awaitable


async def converges(bench: SimulatedBench, *between: Action) -> None:
    """Check that the next process can stop the daemon, after it started the daemon or at once."""
    for action in between:
        await action(bench)
    if start in between:
        record = MpsDaemonStore(bench.folder).get(CLAIM)
        assert record is not None
        assert record.state is DaemonState.READY
        assert bench.host().observe(CLAIM) is ObservedDaemon.ANSWERING
        assert bench.limits(CLAIM) == (50, {GPU: 1024})
    await stop(bench)
    assert bench.remains(CLAIM) == []


ROUNDS: list[tuple[Action, Action]] = [
    (nothing, start),
    (start, stop),
    (start, start_with_other_limits),
    (start, restart),
]


CONTINUATIONS: tuple[tuple[Action, ...], ...] = ((), (start,), (recover,), (recover, start))
"""What happens before the stop that ends each round."""


def main(folder: Path) -> None:
    runs_all = "KILLS" in os.environ
    logging.disable()
    os.fsync = lambda fd: None  # the files of a killed process need no sync
    killed = 0
    for before, action in ROUNDS:
        for moment in count(1):
            died = False
            turn = moment % len(CONTINUATIONS)
            for between in CONTINUATIONS if runs_all else CONTINUATIONS[turn : turn + 1]:
                shutil.rmtree(folder, ignore_errors=True)
                bench = SimulatedBench(folder)
                bench.folder.mkdir(parents=True)
                asyncio.run(_await(before(bench)))
                died = dies(bench, action, moment)
                killed += died
                try:
                    asyncio.run(converges(bench, *between))
                except BaseException:
                    names = [each.__name__ for each in (before, action, *between)]
                    print(f"after {' '.join(names)}, moment {moment}", file=sys.stderr)
                    raise
            if not died:
                break
    print(f"{killed} processes were killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
