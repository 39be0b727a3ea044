"""A shell is in flash: a program that writes one is not killed, and never runs twice at once on a card.

The program is a script that waits for a file. Its output is longer than a pipe, as a progress bar's is.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dradriver_fpga.card import BusyError, CardKind, ToolFailedError
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.card_suite import LONG, RunInBackground, until
from tests.drivers.fpga.kernel.fake import FakeKernel

CARD, REGION = "0000:af:00.1", "0000:af:00.1/0"

PROCESS = """
import sys
from pathlib import Path
from dradriver_fpga.card import Bitstream, CardKind
from dradriver_fpga.card.real import FpgaHost, RealFpgas
root, path, sha256 = sys.argv[1:]
root = Path(root)
tools = {CardKind.XRT: (str(root / "flash"), "{card}", "{file}")}
host = FpgaHost(records=root / "records.json", sysfs=root / "sys", boot_id=root / "boot_id", shell_tools=tools)
RealFpgas(host).program("0000:af:00.1", Bitstream(Path(path), sha256), timeout=60)
"""


@dataclass
class Flash:
    """The vendor's program, and what it did."""

    root: Path

    def __post_init__(self) -> None:
        script = f"""#!/bin/sh
echo start >> {self.root}/log
head -c 200000 /dev/zero | tr '\\0' '.'
cmp -s "$2" {self.root}/expected || echo wrong >> {self.root}/log
until [ -e {self.root}/go ]; do sleep 0.02; done
head -c 200000 /dev/zero | tr '\\0' '.'
cmp -s "$2" {self.root}/expected || echo wrong >> {self.root}/log
echo end >> {self.root}/log
"""
        (self.root / "flash").write_text(script)
        (self.root / "flash").chmod(0o755)

    @property
    def log(self) -> list[str]:
        log = self.root / "log"
        return log.read_text().split() if log.exists() else []

    def has_begun(self) -> bool:
        """Whether the program runs, and its process is recorded."""
        lock = self.root / "programming/pci-0000-af-00-1.lock"
        return self.log == ["start"] and "process" in lock.read_text()

    def finish(self) -> None:
        (self.root / "go").touch()


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    kernel = FakeKernel(tmp_path / "node")
    kernel.plug("alveo")
    return kernel


@pytest.fixture
def flash(kernel: FakeKernel) -> Flash:
    return Flash(kernel.root)


def host_with(kernel: FakeKernel, flash: Flash) -> FpgaHost:
    command = (str(flash.root / "flash"), "{card}", "{file}")
    return replace(kernel.host, shell_tools={CardKind.XRT: command})


def test_a_write_that_exceeds_the_time_limit_goes_on(kernel: FakeKernel, flash: Flash, tmp_path: Path) -> None:
    files, hardware = Bitstreams(tmp_path), RealFpgas(host_with(kernel, flash), kernel)
    shell = files.shell("alveo", 1)
    (kernel.root / "expected").write_bytes(shell.path.read_bytes())
    with pytest.raises(BusyError, match="still runs after the time limit; it is not killed"):
        hardware.program(CARD, shell, timeout=0.05)
    until(flash.has_begun)
    for process in (hardware, RealFpgas(kernel.host, kernel)):
        for target, bitstream in ((CARD, shell), (REGION, files.fitting("alveo"))):
            rule = rf"card of {target} is being programmed by .*flash \(process \d+"
            with pytest.raises(BusyError, match=rule):
                process.program(target, bitstream, timeout=LONG)
    flash.finish()
    hardware.close()
    assert flash.log == ["start", "end"]


def test_the_driver_ends_after_the_write(kernel: FakeKernel, flash: Flash, tmp_path: Path) -> None:
    """`close()` waits, so the driver does not end at SIGTERM: in a container, its end would end the program."""
    hardware = RealFpgas(host_with(kernel, flash), kernel)
    shell = Bitstreams(tmp_path).shell("alveo", 1)
    (kernel.root / "expected").write_bytes(shell.path.read_bytes())
    with pytest.raises(BusyError):
        hardware.program(CARD, shell, timeout=0.05)
    until(flash.has_begun)
    at_the_end: list[str] = []

    def close() -> None:
        hardware.close()
        at_the_end.extend(flash.log)

    with RunInBackground(close):
        assert not at_the_end
        flash.finish()
    assert at_the_end == ["start", "end"]


def test_a_write_outlives_the_driver_and_the_next_process_waits_for_it(
    kernel: FakeKernel, flash: Flash, tmp_path: Path
) -> None:
    """The driver is killed with its group, as by a terminal. The script gets no SIGPIPE, and its file stays."""
    files = Bitstreams(tmp_path)
    shell = files.shell("alveo", 1)
    (kernel.root / "expected").write_bytes(shell.path.read_bytes())
    arguments = [sys.executable, "-c", PROCESS, str(kernel.root), str(shell.path), shell.sha256]
    driver = subprocess.Popen(arguments, start_new_session=True)
    until(flash.has_begun)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    after = RealFpgas(host_with(kernel, flash), kernel)
    with pytest.raises(BusyError, match=r"is being programmed by .*flash \(process \d+\)"):
        after.program(REGION, files.fitting("alveo"), timeout=LONG)
    assert flash.log == ["start"]
    flash.finish()
    until(lambda: flash.log == ["start", "end"])
    until(lambda: not is_busy(after, files))
    assert flash.log == ["start", "end"]


def is_busy(hardware: RealFpgas, files: Bitstreams) -> bool:
    try:
        hardware.program(REGION, files.fitting("alveo"), timeout=LONG)
    except BusyError:
        return True
    return False


def test_a_failed_write_is_reported_with_the_end_of_its_output(kernel: FakeKernel, tmp_path: Path) -> None:
    command = ("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' '.'; echo ERROR: flash is locked; exit 3")
    hardware = RealFpgas(replace(kernel.host, shell_tools={CardKind.XRT: command}), kernel)
    with pytest.raises(ToolFailedError, match=r"exit status 3: \.*\s*ERROR: flash is locked$"):
        hardware.program(CARD, Bitstreams(tmp_path).shell("alveo", 1), timeout=LONG)
    hardware.close()
