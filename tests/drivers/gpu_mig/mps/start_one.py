"""Starts the daemon of a claim, then waits: `python -m tests.drivers.gpu_mig.mps.start_one JSON`."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from dradriver_gpu_mig.mps import MpsDaemons, MpsDaemonStore, MpsFolders, NodeMpsHost
from dradriver_gpu_mig.settings import MpsSettings
from tests.drivers.gpu_mig.mps.benches import make_daemon


def main() -> None:
    arguments = json.loads(sys.argv[1])
    folder = Path(arguments["folder"])
    host = NodeMpsHost(
        folder,
        driver_root_on_host=Path(arguments["root"]),
        proc=Path("/proc"),
        settings=MpsSettings(node_process=arguments["target"], cgroup=arguments["cgroup_root"]),
    )
    daemons = MpsDaemons(MpsDaemonStore(folder), host, MpsFolders(folder))
    asyncio.run(daemons.start(make_daemon(arguments["claim"])))
    print("started", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
