"""`python -m benchmarks.extender.held_connections [FOLDER]`: a server whose calls of `bind` never end.

It has no cluster and no pipeline, so its memory is that of the connections and of their requests. It prints its
port, and runs until it is killed. With a folder with `tls.crt` and `tls.key`, it speaks mutual TLS, and clients
have the same certificate.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from benchmarks.peers import ROOT
from benchmarks.waiting import resident_kibibytes
from dradriver.aio.event_loop import DriverEventLoop
from dradriver.extender.protocol import BindArgs, FilterResult, HostPriority, MetaVictims, PodState
from dradriver.extender.serving.metrics import ExtenderMetrics
from dradriver.extender.serving.server import ExtenderServer
from dradriver.extender.serving.verb_calls import VerbCalls
from dradriver.http_server.certificate import Certificate
from dradriver.model.core.workload import Pod
from tests.unit.admission.certificates import make_pair

__all__ = ["measure_connection"]

_WARM_UP = 20


class _WaitingVerbs:
    """Only `bind` is called, and never returns."""

    notice = second_allocator = ""

    def __init__(self) -> None:
        self._calls = 0

    def explain(self, pod: str) -> PodState:
        """Return the number of calls of `bind` as the message."""
        return PodState(pod=pod, state="binding", message=str(self._calls))

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterResult:
        raise NotImplementedError(pod.ref, nodes)

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Sequence[HostPriority]:
        raise NotImplementedError(pod.ref, nodes)

    async def preempt(self, pod: Pod, victims: Mapping[str, MetaVictims]) -> Mapping[str, MetaVictims]:
        raise NotImplementedError(pod.ref, victims)

    async def bind(self, args: BindArgs) -> None:
        self._calls += 1
        await asyncio.get_running_loop().create_future()
        raise AssertionError(args)


class _Process:
    readiness = standby_readiness = ""

    def __init__(self) -> None:
        self.metrics = ExtenderMetrics()
        self.calls = VerbCalls(lambda: "")
        self.calls.open(_WaitingVerbs())

    async def liveness(self) -> str:
        return ""


async def measure_connection(count: int, *, mutual_tls: bool = False) -> float:
    """Return the resident memory of one connection that a call of `bind` holds, in KiB.

    Args:
        count: number of connections.
        mutual_tls: whether the connections use mutual TLS instead of plain HTTP.
    """
    with TemporaryDirectory() as folder:
        context = None
        if mutual_tls:
            pair = make_pair("extender")
            context = ssl.create_default_context(cadata=pair.certificate)
            context.load_cert_chain(*pair.write(Path(folder)))
        return await _measure(count, folder if mutual_tls else "", context)


async def _measure(count: int, folder: str, context: ssl.SSLContext | None) -> float:
    async with (
        _server(folder) as (pid, url),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=context or True)) as client,
    ):
        calls: list[asyncio.Task[object]] = []
        try:
            await _hold(client, url, _WARM_UP, calls)
            before = resident_kibibytes(pid)
            await _hold(client, url, count, calls)
            return (resident_kibibytes(pid) - before) / count
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def _server(folder: str) -> AsyncIterator[tuple[int, str]]:
    command = (sys.executable, "-m", "benchmarks.extender.held_connections", *([folder] if folder else ()))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield process.pid, f"{'https' if folder else 'http'}://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def _hold(client: aiohttp.ClientSession, url: str, count: int, calls: list[asyncio.Task[object]]) -> None:
    """Make calls of `bind`, and return when the server waits in all of them."""
    for _ in range(count):
        number = len(calls)
        args = {
            "PodName": f"pod-{number}",
            "PodNamespace": "default",
            "PodUID": f"{number:036}",
            "Node": "node-1",
        }
        calls.append(asyncio.create_task(_call(client, f"{url}/bind", args)))
    open_calls = 0
    while open_calls < len(calls):
        await asyncio.sleep(0.1)
        async with client.get(f"{url}/explain?pod=default/any") as answer:
            open_calls = int((await answer.json())["message"])


async def _call(client: aiohttp.ClientSession, url: str, args: Mapping[str, str]) -> object:
    async with client.post(url, json=args, timeout=aiohttp.ClientTimeout(None)) as answer:
        return await answer.read()


async def main() -> None:
    """Serve until the process is killed."""
    context = None
    if len(sys.argv) > 1:
        certificate, key = (Path(sys.argv[1]) / name for name in ("tls.crt", "tls.key"))
        context = Certificate(certificate, key, certificate).context
    server = ExtenderServer(_Process(), host="127.0.0.1", context=context)
    await server.start()
    print(server.port, flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=DriverEventLoop) as runner:
        runner.run(main())
