"""`python -m benchmarks`: runs the benchmarks and prints one table."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks import node
from benchmarks.bed import Bed
from benchmarks.peers import Peer, go_peer, python_peer
from benchmarks.report import Report


async def main() -> int:
    """Runs every benchmark for every peer, interleaved round by round."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each driver is started (default 3)")
    parser.add_argument(
        "--prepares", type=int, default=200, help="prepares measured in each round (default 200)"
    )
    options = parser.parse_args()
    peers: list[Peer] = [python_peer()]
    if (go := go_peer()) is not None:
        peers.append(go)
    else:
        print("no Go toolchain: without the Go driver to compare with", file=sys.stderr)
    report = Report([peer.title for peer in peers])
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as directory:
        async with Bed(Path(directory)) as bed:
            for number in range(1, options.rounds + 1):
                for peer in peers:
                    print(f"round {number} of {options.rounds}: {peer.title}", file=sys.stderr)
                    await node.measure(bed, peer, options.prepares, report)
    print(report.table())
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
