"""The controllers and the scheduler in a process that tests kill: `control_plane.py KUBECONFIG [SECONDS]`.

With the duration of a lease in seconds, only the holder of a Lease works.
"""

import asyncio
import logging
import sys
from functools import partial

from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Client
from dradriver.kube.leader import Leader
from dradriver.kube.leading import Leadership, new_identity
from dradriver.model.core.lease import LeaseTiming


async def main(kubeconfig: str, lease_seconds: int) -> None:
    """Run until killed."""
    async with await Client.connect(kubeconfig) as client:
        print("connected", flush=True)
        if not lease_seconds:
            await _work(client)
            return
        leader = Leader(client, "scheduler", "default", new_identity(), LeaseTiming(lease_seconds))
        guarded = client.with_guard(leader.limit_write)
        await Leadership(leader).run(partial(_work, guarded), asyncio.Event())


async def _work(client: Client) -> None:
    async with Controllers(client, SchedulerSettings(pod_backoff=(0.05, 0.2))):
        await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
