"""The API server of a run in its own processes, and access to it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from benchmarks.peers import ROOT

__all__ = ["NODE", "SERVERS", "Kubeconfigs"]

NODE: Final = "bench-node"


class Kubeconfigs(NamedTuple):
    """Kubeconfig files of the benchmark and of the drivers."""

    admin: Path
    driver: Path


Server: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Kubeconfigs]]


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Kubeconfigs]:
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.server",
        str(folder),
        NODE,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        await server.stdout.readline()
        yield Kubeconfigs(folder / "admin.kubeconfig", folder / "node.kubeconfig")
    finally:
        server.terminate()
        await server.wait()


@asynccontextmanager
async def _real(_: Path) -> AsyncIterator[Kubeconfigs]:
    """Start kube-apiserver and etcd. etcd never syncs.

    Drivers use the administrator's identity, because the time of authorization is not measured.
    """
    from tests.e2e.bed import control_plane  # noqa: PLC0415 - builds Kubernetes at the first use
    from tests.e2e.bed.bed import Bed  # noqa: PLC0415

    with Bed() as bed:
        control_plane.start(bed)
        kubeconfig = bed.credentials.write_kubeconfig(bed.url, "admin")
        yield Kubeconfigs(kubeconfig, kubeconfig)


SERVERS: Final[Mapping[str, Server]] = {"embedded": _embedded, "real": _real}
"""The servers by the value of the option."""
