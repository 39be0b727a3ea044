"""Memory of the FPGA driver while it programs two cards at once with large bitstreams.

python -m benchmarks.bitstreams [MIB]

One card is programmed by an ioctl of DFL, the other one by a firmware file. Both bitstreams come from a folder,
go through the cache and are verified. The kernel is a fake that reads every byte that it gets. The figures are
those of a process of its own.
"""

import asyncio
import ctypes
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from dradriver_fpga.bitstreams import BitstreamCache, BitstreamSources
from dradriver_fpga.card import Bitstream, FpgaCards
from dradriver_fpga.card.real import RealFpgas
from dradriver_fpga.card.real.mechanisms import PortReconfiguration
from dradriver_fpga.card.simulator import CATALOG
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.settings import BitstreamRules
from tests.drivers.fpga.bitstream_files import AFU, make_gbs
from tests.drivers.fpga.kernel.fake import FakeKernel

MIB: Final = 1 << 20
TARGETS: Final = {"pac": "0000:3b:00.0/0", "zynq": "axi/f8007000.devcfg/0"}
SAMPLE_SECONDS: Final = 0.002
CHUNK: Final = MIB


class ReadingKernel(FakeKernel):
    """A kernel that reads all bits, in pieces."""

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        assert isinstance(argument, PortReconfiguration)
        sha = hashlib.sha256()
        for offset in range(0, argument.buffer_size, CHUNK):
            size = min(CHUNK, argument.buffer_size - offset)
            sha.update((ctypes.c_char * size).from_address(argument.buffer_address + offset))
        super().ioctl(node, request, argument)

    def write(self, attribute: Path, text: str) -> None:
        if attribute.name == "firmware":
            with (self.root / "firmware" / text).open("rb") as file:
                hashlib.file_digest(file, "sha256")
        super().write(attribute, text)


class Sampler(threading.Thread):
    """Finds the largest anonymous memory of this process: all memory that is not the page cache of a file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.largest = max(self.largest, read_status("RssAnon"))

    def stop(self) -> int:
        """Stop, and return the largest value in KiB."""
        self._ended.set()
        self.join()
        return self.largest


def read_status(field: str) -> int:
    """Return a value of /proc/self/status in KiB."""
    match = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


def make_file(path: Path, header: bytes, size: int) -> str:
    """Make a file of zeros behind a header, and return its digest."""
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def no_config_map(_namespace: str, _name: str) -> dict[str, bytes]:
    """Fail: no bitstream of this benchmark is in a ConfigMap."""
    raise AssertionError


async def program_both(folder: Path, size: int) -> None:
    """Program both cards at once."""
    kernel = ReadingKernel(folder / "node")
    headers = {
        "pac": make_gbs(CATALOG["pac"].shells[0].interface_id, AFU, bytes.fromhex(AFU)),
        "zynq": bytes.fromhex(AFU),
    }
    rules = BitstreamRules(folder=str(folder), largest_bytes=size)
    cache = BitstreamCache(folder / "cache", rules, BitstreamSources(rules, no_config_map))

    async def program(cards: FpgaCards, model: str, sha256: str) -> None:
        async with cache.file(RequestedBitstream(file=model, sha256=sha256), "default") as path:
            await cards.program(TARGETS[model], Bitstream(path, sha256), timeout=600)

    for model in headers:
        kernel.plug(model)
    digests = {model: make_file(folder / model, header, size) for model, header in headers.items()}
    hardware = RealFpgas(replace(kernel.host, largest=size), kernel)
    async with FpgaCards(hardware) as cards, asyncio.TaskGroup() as group:
        for model, sha256 in digests.items():
            group.create_task(program(cards, model, sha256))
    assert {region.bitstream for card in hardware.cards() for region in card.regions} >= set(digests.values())


def measure(folder: Path, size: int) -> dict[str, float]:
    """Return the memory of this process in MiB."""
    before = read_status("RssAnon")
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    sampler = Sampler()
    sampler.start()
    asyncio.run(program_both(folder, size))
    return {
        "bitstream": size / MIB,
        "anonymous before": round(before / 1024, 1),
        "anonymous, peak": round(sampler.stop() / 1024, 1),
        "resident with mapped files, peak": round(read_status("VmHWM") / 1024, 1),
    }


def main(mib: int, *inside: str) -> None:
    """Measure in a process of its own, and print the figures as JSON."""
    if inside:
        print(json.dumps(measure(Path(inside[0]), mib * MIB)))
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "benchmarks.bitstreams", str(mib), folder], check=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 256, *sys.argv[2:])
