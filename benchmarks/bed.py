"""Environment in which drivers are measured: an API server and one node's folders, without a kubelet."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from benchmarks.peers import ROOT, Peer
from benchmarks.servers import NODE, Kubeconfigs
from dradriver.kube import Client
from dradriver.wire import registration_v1
from dradriver.wire.stubs import dra_v1_grpc, registration_v1_grpc

__all__ = ["Bed", "Running"]

_START_SECONDS: Final = 60.0
_LOG_LINES: Final = 20


class Running:
    """The process of a driver, and a channel to its gRPC service."""

    def __init__(self, process: asyncio.subprocess.Process, channel: grpc.aio.Channel) -> None:
        self.process = process
        self.plugin = dra_v1_grpc.DRAPluginStub(channel)

    def cpu_milliseconds(self) -> float:
        """Return the CPU time of all live threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e6

    def resident_mebibytes(self) -> float:
        """Return the present memory of the process (VmRSS) in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024


class Bed:
    """One node, with the benchmark as its kubelet.

    Args:
        directory: folder for the drivers' folders.
        kubeconfigs: access to the API server.
    """

    def __init__(self, directory: Path, kubeconfigs: Kubeconfigs) -> None:
        self.directory = directory
        self.client: Client
        self._kubeconfigs = kubeconfigs

    async def __aenter__(self) -> Self:
        self.client = await Client.connect(str(self._kubeconfigs.admin))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()

    @asynccontextmanager
    async def running(self, peer: Peer) -> AsyncIterator[Running]:
        """Start a driver and register it as a kubelet does. It ends with the context."""
        folders = {name: self.directory / peer.driver / name for name in ("plugins", "registry", "cdi")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        flags = [f"--{name}-dir={folder}" for name, folder in folders.items()]
        log = self.directory / peer.driver / "log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *peer.command,
                *flags,
                f"--node-name={NODE}",
                f"--kubeconfig={self._kubeconfigs.driver}",
                cwd=ROOT,
                env=peer.environment or None,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                endpoint = await _register(folders["registry"])
            async with grpc.aio.insecure_channel(f"unix:{endpoint}") as channel:
                yield Running(process, channel)
        except Exception as error:
            error.add_note(f"The log of {peer.title} ends:\n{_end(log)}")
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def _end(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])


async def _register(registry: Path) -> str:
    while not (sockets := [entry for entry in registry.iterdir() if entry.is_socket()]):
        await asyncio.sleep(0.002)
    async with grpc.aio.insecure_channel(f"unix:{sockets[0]}") as channel:
        registration = registration_v1_grpc.RegistrationStub(channel)
        info = await registration.GetInfo(registration_v1.InfoRequest(), wait_for_ready=True)
        await registration.NotifyRegistrationStatus(registration_v1.RegistrationStatus(plugin_registered=True))
    return str(info.endpoint)
