"""The API server of the bed as a process: `python -m benchmarks.server DIRECTORY NODE`."""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from dradriver.cluster.apiserver import ApiServer


async def main(directory: Path, node: str) -> None:
    """Serve until SIGTERM. Prints `ready` when the server is ready."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = ApiServer(directory / "server")
    await server.start()
    server.write_kubeconfig(directory / "admin.kubeconfig")
    server.write_kubeconfig(directory / "node.kubeconfig", f"driver:{node}")
    print("ready", flush=True)
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
