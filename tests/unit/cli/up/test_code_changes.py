"""`dradriver up --reload` restarts a driver whose code changed, if the new code can be imported."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

import dradriver_loop
from dradriver.cli.up import code_changes
from dradriver.cli.up.code_changes import (
    ChangeDetector,
    CodeReloader,
    Snapshot,
    find_code,
    find_import_error,
    scan_code,
)

DRIVER = """\
import dradriver

class LedDriver(dradriver.Driver):
    name = "led.example.com"
"""
A, B = Path("a.py"), Path("b.py")


def files(**sizes: int) -> Snapshot:
    return {Path(f"{name}.py"): (0, size, 0) for name, size in sizes.items()}


def test_a_change_is_reported_once_and_only_after_the_files_have_settled() -> None:
    detector = ChangeDetector(files(a=1, b=1))
    assert detector.compare(files(a=1, b=1)) == ()
    assert detector.compare(files(a=2, b=1)) == ()
    assert detector.compare(files(a=2, b=2)) == (), "an editor still writes"
    assert detector.compare(files(a=2, b=2)) == (A, B)
    assert detector.compare(files(a=2, b=2)) == ()


def test_files_that_appear_and_disappear_are_changes() -> None:
    detector = ChangeDetector(files(a=1))
    assert [detector.compare(files(b=1)) for _ in range(2)] == [(), (A, B)]


def test_a_change_that_is_undone_before_the_files_settle_is_none() -> None:
    detector = ChangeDetector(files(a=1))
    assert detector.compare(files(a=2)) == ()
    assert detector.compare(files(a=1)) == ()
    assert detector.compare(files(a=1)) == ()


def test_the_python_files_of_a_package_are_scanned_without_caches_and_hidden_files(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "__pycache__/c.py", ".venv/d.py", "data.json", ".#a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    single = tmp_path / "data.json"
    assert set(scan_code([tmp_path])) == {tmp_path / "a.py", tmp_path / "sub/b.py"}
    assert set(scan_code([single, tmp_path / "gone.py"])) == {single}


def test_the_code_of_a_driver_is_its_top_level_package_or_its_module() -> None:
    assert find_code("dradriver_loop.driver") == (Path(dradriver_loop.__file__).parent.resolve(),)
    assert find_code(__name__)[0] in Path(__file__).resolve().parents
    sys.modules["led_single"] = module = type(sys)("led_single")
    try:
        module.__file__ = __file__
        assert find_code("led_single") == (Path(__file__).resolve(),)
    finally:
        del sys.modules["led_single"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with a driver, which other processes can import."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    path = tmp_path / "led_project.py"
    path.write_text(DRIVER)
    return path


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (DRIVER, ""),
        (DRIVER.replace("):", ")"), "SyntaxError: expected ':'"),
        ("import missing_module", "ModuleNotFoundError: No module named 'missing_module'"),
        ("raise SystemExit('stop')", "SystemExit: stop"),
        ("import os; os._exit(5)", "exit code 5"),
        (f"import threading; threading.Thread(target=threading.Event().wait).start()\n{DRIVER}", ""),
        (f"import subprocess; subprocess.Popen(['sleep', '3600'])\n{DRIVER}", ""),
    ],
)
async def test_another_process_finds_out_whether_the_code_can_be_imported(
    project: Path, code: str, error: str
) -> None:
    project.write_text(code)
    found = await find_import_error("led_project:LedDriver")
    assert error in found
    assert bool(found) == bool(error)


async def test_an_import_that_does_not_end_is_an_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_changes, "_IMPORT_SECONDS", 0.01)
    project.write_text("import threading; threading.Event().wait()")
    assert "takes longer than 0.01 s" in await find_import_error("led_project:LedDriver")


async def test_only_importable_changes_restart_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_changes, "_POLL_SECONDS", 0.01)
    path = tmp_path / "driver.py"
    path.write_text("broken = 1")
    happened: asyncio.Queue[str] = asyncio.Queue()

    async def check(driver: str) -> str:
        text = await asyncio.to_thread(path.read_text)
        return "SyntaxError" if "broken" in text else ""

    reloader = CodeReloader(
        {"led": [tmp_path]},
        restart=lambda driver, reason: happened.put_nowait(f"restart {driver}: {reason}"),
        report=happened.put_nowait,
        check=check,
    )
    async with reloader:
        path.write_text("broken = 22")
        assert await happened.get() == "driver led is not restarted, although driver.py changed: SyntaxError"
        path.write_text("right = 333")
        assert await happened.get() == "restart led: driver.py changed"
    assert happened.empty()


async def test_a_check_that_cannot_start_is_reported_and_tried_again_after_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_changes, "_POLL_SECONDS", 0.01)
    path = tmp_path / "driver.py"
    path.write_text("first = 1")
    happened: asyncio.Queue[str] = asyncio.Queue()
    full_disk = [OSError(28, "No space left on device")]

    async def check(_driver: str) -> str:
        if full_disk:
            raise full_disk.pop()
        return ""

    async with CodeReloader(
        {"led": [tmp_path]},
        restart=lambda driver, reason: happened.put_nowait(f"restart {driver}: {reason}"),
        report=happened.put_nowait,
        check=check,
    ):
        path.write_text("second = 22")
        assert "its import cannot be tried: No space left on device" in await happened.get()
        path.write_text("third = 333")
        assert await happened.get() == "restart led: driver.py changed"
