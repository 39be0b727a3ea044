"""The controllers and the scheduler in a process that can be killed: `python control_plane.py KUBECONFIG`."""

import asyncio
import sys

from dradriver.control.controllers import Controllers
from dradriver.kube import Client


async def main(kubeconfig: str) -> None:
    """Works until it is killed."""
    async with await Client.connect(kubeconfig) as client:
        print("connected", flush=True)
        await _work(client)


async def _work(client: Client) -> None:
    async with Controllers(client, setback=(0.05, 0.2)):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
