"""`python -m benchmarks`: runs the benchmarks and prints one table."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import node
from benchmarks.bed import Bed
from benchmarks.peers import go_peers, python_peers, with_slower_syncs
from benchmarks.report import Report
from benchmarks.servers import SERVERS


async def main() -> int:
    """Run every benchmark for every peer, interleaved round by round."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each driver is started (default 3)")
    parser.add_argument(
        "--prepares", type=int, default=200, help="prepares measured in each round (default 200)"
    )
    parser.add_argument(
        "--server",
        choices=sorted(SERVERS),
        default="embedded",
        help="the API server: ours, or kube-apiserver and etcd as tests/e2e builds them (default embedded)",
    )
    parser.add_argument(
        "--slower-syncs",
        type=float,
        metavar="MS",
        help="syncs of the drivers' files take so many milliseconds longer than this disk's (strace does it)",
    )
    options = parser.parse_args()
    ours, others = python_peers(), go_peers()
    if not others:
        print("no Go toolchain: without the Go driver to compare with", file=sys.stderr)
    if options.slower_syncs is not None:
        if shutil.which("strace") is None:
            parser.error("--slower-syncs needs strace, which is not installed")
        ours, others = (
            [with_slower_syncs(peer, options.slower_syncs) for peer in peers] for peers in (ours, others)
        )
    report = Report([peer.title for peer in ours], [peer.title for peer in others])
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as directory:
        folder = Path(directory)
        async with SERVERS[options.server](folder) as kubeconfigs, Bed(folder, kubeconfigs) as bed:
            for number in range(1, options.rounds + 1):
                for peer in (*ours, *others):
                    print(f"round {number} of {options.rounds}: {peer.title}", file=sys.stderr)
                    await node.measure(bed, peer, options.prepares, report)
    print(report.table())
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
