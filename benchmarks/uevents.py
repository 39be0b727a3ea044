"""Storms of uevents: delay until the FPGA driver sees the cards of sysfs, and its cost.

python -m benchmarks.uevents [SECONDS]

It runs in its own network namespace, with cards below a folder and the kernel's own uevents.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dradriver_fpga.card import FpgaCards
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from tests.drivers.fpga.kernel.fake import FakeKernel
from tests.drivers.fpga.kernel.uevents import Uevents

A_MINUTE: Final = 10_000
CARDS: Final = 8
OTHERS: Final = 240
"""Number of PCI devices that are not FPGAs, and number of such platform devices."""
BURST: Final = 40_000
ROUNDS: Final = 10
INSIDE: Final = "DRADRIVER_BENCHMARK_NAMESPACE"


class Listener:
    """Follows the cards in its own process, and reports their number at each change."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.uevents", "listen", str(root)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def told(self, count: int) -> float:
        """Return the time at which it saw this many cards (monotonic clock)."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            seen, moment = line.split()
            if int(seen) == count:
                return float(moment)
        raise EOFError("the listener ended")

    def cpu(self) -> float:
        """Return the seconds of CPU time until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def listen(root: Path) -> None:
    host = FpgaHost(
        records=root / "records.json",
        sysfs=root / "sys",
        boot_id=root / "boot_id",
        udev_control=root / "no-udevd",
    )
    async with FpgaCards(RealFpgas(host), rescan=3600) as cards:
        async for found in cards.changes():
            print(len(found), time.monotonic(), flush=True)


@contextmanager
def bed() -> Iterator[tuple[FakeKernel, Uevents, Listener]]:
    with tempfile.TemporaryDirectory() as folder:
        uevents = Uevents()
        kernel = FakeKernel(Path(folder), uevents.send)
        for number in range(OTHERS):
            kernel.tree.add(f"pci0000:00/0001:{number >> 3:02x}:00.{number & 7}", "pci", {"vendor": "0x1af4"})
            kernel.tree.add(f"platform/other.{number}", "platform")
        for model in itertools.islice(itertools.cycle(("pac", "alveo")), CARDS):
            kernel.plug(model)
        listener = Listener(Path(folder))
        listener.told(CARDS)
        try:
            yield kernel, uevents, listener
        finally:
            listener.process.kill()
            listener.process.wait()
            uevents.close()


def storm(seconds: float) -> None:
    """Send uevents at a steady rate, and add or remove a card each second."""
    with bed() as (kernel, uevents, listener):
        card, there = "0000:3b:00.0", True
        lags: list[float] = []
        began, cpu, sent = time.monotonic(), listener.cpu(), 0
        while (now := time.monotonic()) < began + seconds:
            if now - began >= len(lags) + 1:
                there, moment = not there, time.monotonic()
                (kernel.replug if there else kernel.unplug)(card)
                lags.append(listener.told(CARDS if there else CARDS - 1) - moment)
            while sent < (now - began) * A_MINUTE / 60:
                uevents.send("change", "devices/pci0000:30/0000:3b:00.0", "pci")
                sent += 1
            time.sleep(0.005)
        share = (listener.cpu() - cpu) / (time.monotonic() - began)
        print(f"storm: {sent} uevents in {seconds:.0f} s, {CARDS} cards")
        print(f"  from sysfs to the driver: {min(lags):.2f} to {max(lags):.2f} s, {len(lags)} times")
        print(f"  CPU: {share:.1%} of a core")


def overflow() -> None:
    """Send more uevents than the queue holds to a stopped listener, with a card added or removed meanwhile."""
    with bed() as (kernel, uevents, listener):
        card, there, lags = "0000:3b:00.0", True, []
        for _ in range(ROUNDS):
            listener.process.send_signal(signal.SIGSTOP)
            for number in range(BURST):
                uevents.send("change", f"devices/virtual/block/zram{number}", "block")
            there = not there
            (kernel.replug if there else kernel.unplug)(card)
            moment = time.monotonic()
            listener.process.send_signal(signal.SIGCONT)
            lags.append(listener.told(CARDS if there else CARDS - 1) - moment)
        print(f"overflow: {BURST} uevents at once, {ROUNDS} times; {drops()} were lost")
        print(f"  from the end of it to the driver: {min(lags):.2f} to {max(lags):.2f} s")


def drops() -> int:
    """Return the number of netlink messages that listeners in this namespace have lost."""
    head, *rows = Path("/proc/net/netlink").read_text().splitlines()
    column = head.split().index("Drops")
    return sum(int(row.split()[column]) for row in rows)


def main() -> None:
    """Run in a network namespace, which is created first if necessary."""
    match sys.argv[1:]:
        case ["listen", root]:
            asyncio.run(listen(Path(root)))
        case arguments if INSIDE in os.environ:
            storm(float(arguments[0]) if arguments else 60)
            overflow()
        case arguments:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", "-Urn", sys.executable, "-m", "benchmarks.uevents", *arguments])


if __name__ == "__main__":
    main()
