"""No test can hang: a test that waits forever is ended and fails, and the tests after it run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, settings

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[2]
CONFTEST = """
import pytest
from tests import time_limits

time_limits.AGAIN_SECONDS = 0.2
time_limits.GRACE_SECONDS = {grace}

def limit_phase(item, phase):
    # Only the phases that hang have a short limit. Others may take long on a slow machine.
    hangs = any(phase in mark.args for mark in item.iter_markers("hangs_in"))
    item.stash[time_limits.SECONDS] = 0.4 if hangs else 60

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    limit_phase(item, "setup")
    return (yield)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    limit_phase(item, "call")
    return (yield)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    limit_phase(item, "teardown")
    return (yield)
"""
ENDED = """
import asyncio, threading
import pytest

TASKS = []
LAST_TEST = threading.Event()

async def forever():
    await asyncio.Event().wait()

async def block():
    threading.Event().wait()

async def ignore_cancellation():
    while True:
        try:
            await forever()
        except asyncio.CancelledError:
            pass

@pytest.fixture
async def setup():
    await forever()

@pytest.fixture
async def teardown():
    yield
    await forever()

@pytest.fixture
async def other_teardown():
    yield
    await forever()

@pytest.fixture
async def executor_thread():
    asyncio.get_running_loop().run_in_executor(None, LAST_TEST.wait)

@pytest.mark.hangs_in("call")
def test_blocks():
    threading.Event().wait()

@pytest.mark.hangs_in("call")
async def test_waits():
    await forever()

@pytest.mark.hangs_in("call")
async def test_blocks_the_loop():
    threading.Event().wait()

@pytest.mark.hangs_in("call")
async def test_waits_while_a_callback_blocks():
    asyncio.get_running_loop().call_soon(threading.Event().wait)
    await forever()

@pytest.mark.hangs_in("call")
async def test_waits_while_a_task_blocks():
    task = asyncio.create_task(block())
    await forever()

@pytest.mark.hangs_in("teardown")
async def test_leaves_a_task_that_ignores_cancellation():
    TASKS.append(asyncio.create_task(ignore_cancellation()))
    await asyncio.sleep(0)

@pytest.mark.hangs_in("teardown")
async def test_leaves_a_thread_of_the_loop(executor_thread):
    pass

@pytest.mark.hangs_in("setup")
async def test_setup(setup):
    pass

@pytest.mark.hangs_in("teardown")
async def test_teardown(teardown):
    pass

@pytest.mark.hangs_in("teardown")
async def test_teardown_after_a_failure(teardown):
    pytest.fail("for a reason of its own")

@pytest.mark.hangs_in("call", "teardown")
async def test_two_teardowns_after_a_timeout(teardown, other_teardown):
    await forever()

async def test_after_them_all():
    LAST_TEST.set()
"""
KILLED = """
import signal, threading
import pytest

@pytest.mark.hangs_in("call")
def test_ignores_every_exception():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

@pytest.mark.hangs_in("call")
def test_blocks_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    threading.Event().wait()

def test_after_them_all():
    pass
"""
THREAD = """
import threading

def test_leaves_a_thread_behind():
    threading.Thread(target=threading.Event().wait).start()
"""


REASON = re.compile(
    r"[a-z-]+ took longer than \S+ s|for a reason of its own|errors while tearing down"
    r"|worker \S+ crashed while running"
)


def run_pytest(folder: Path, tests: str, *options: str, grace: float = 60) -> dict[str, list[str]]:
    """Return the errors of each test, from pytest's report."""
    (folder / "conftest.py").write_text(CONFTEST.format(grace=grace))
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (folder / "test_it.py").write_text(tests)
    plugins = ("pytest_asyncio.plugin", "pytest_timeout", "xdist.plugin", "tests.time_limits")
    report = folder / "report.xml"
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", f"--junitxml={report}", "--asyncio-mode=auto", "--timeout=0.4"),
            *(f"-p{plugin}" for plugin in plugins),
            *options,
            folder,
        ],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=160,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    outcomes: dict[str, list[str]] = {}
    for case in ET.parse(report).iter("testcase"):
        reasons = outcomes.setdefault(case.get("name", "").removeprefix("test_it.py::"), [])
        for problem in (*case.iter("failure"), *case.iter("error")):
            reasons += REASON.findall(problem.get("message", ""))
    return outcomes


CALL, SETUP, TEARDOWN = (f"{phase} took longer than 0.4 s" for phase in ("call", "set-up", "tear-down"))


def test_a_test_that_waits_forever_fails_and_the_next_test_runs(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, ENDED) == {
        "test_blocks": [CALL],
        "test_waits": [CALL],
        "test_blocks_the_loop": [CALL],
        "test_waits_while_a_callback_blocks": [CALL],
        "test_waits_while_a_task_blocks": [CALL],
        "test_leaves_a_task_that_ignores_cancellation": [TEARDOWN],
        "test_leaves_a_thread_of_the_loop": [TEARDOWN],
        "test_setup": [SETUP],
        "test_teardown": [TEARDOWN],
        "test_teardown_after_a_failure": ["for a reason of its own", TEARDOWN],
        "test_two_teardowns_after_a_timeout": [CALL, "errors while tearing down"],
        "test_after_them_all": [],
    }


def test_a_test_that_ignores_exceptions_is_ended_with_its_process(
    tmp_path: Path,
) -> None:
    assert run_pytest(tmp_path, KILLED, "-n1", grace=0.5) == {
        "test_ignores_every_exception": ["worker 'gw0' crashed while running"],
        "test_blocks_signals": ["worker 'gw1' crashed while running"],
        "test_after_them_all": [],
    }


def test_a_process_with_a_thread_that_never_ends_exits(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, THREAD, grace=0.5) == {"test_leaves_a_thread_behind": []}


def test_hypothesis_examples_have_no_deadline() -> None:
    """By default, Hypothesis fails an example that takes longer than 200 ms."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert settings(max_examples=1).deadline is None
