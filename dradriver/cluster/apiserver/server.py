"""Starts and stops the server: its credentials, state, socket and background tasks."""

import asyncio
import base64
import contextlib
import errno
import fcntl
import json
import logging
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from dradriver.cluster.apiserver.access import identity
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.faults import Faults
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.kinds.resources import Registry, get_schema
from dradriver.cluster.apiserver.quota.controller import QuotaController
from dradriver.cluster.apiserver.requests.decoding import MAX_BODY_BYTES
from dradriver.cluster.apiserver.requests.handlers import Handler, PodLogs
from dradriver.cluster.apiserver.storage import namespaces
from dradriver.cluster.apiserver.storage.definitions import DefinitionController
from dradriver.cluster.apiserver.storage.expiry import EventExpiry
from dradriver.cluster.apiserver.storage.garbage import GarbageCollector
from dradriver.cluster.apiserver.storage.persist import Database
from dradriver.cluster.apiserver.storage.store import Store
from dradriver.cluster.apiserver.validation.devices import CelCheck
from dradriver.errors import UsageError

__all__ = ["ApiServer", "PodLogs"]


_LOG = logging.getLogger(__name__)
_HTTP_LOG = logging.getLogger("dradriver.cluster.apiserver.http")
# aiohttp logs a traceback if received bytes are not a request. The server answers with 400, and the operator
# does not need the traceback.
_HTTP_LOG.addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)
_RESTART_SECONDS = 1.0


def _make_request(
    message: RawRequestMessage, payload: StreamReader, protocol: RequestHandler,
    writer: AbstractStreamWriter, task: asyncio.Task[None],
) -> web.BaseRequest:  # fmt: skip
    # This function is like aiohttp's own function, but with Kubernetes' limit on bodies.
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)


class Controller(Protocol):
    """A task that runs beside the requests."""

    async def run(self) -> None:
        """Run until cancelled."""


async def _run_forever(controller: Controller) -> None:
    """Run a controller.

    If the controller fails, it starts again from the stored state, so that no object can stop it permanently.
    """
    while True:
        try:
            await controller.run()
        except Exception:
            _LOG.exception("controller %s failed and is started again", type(controller).__name__)
        await asyncio.sleep(_RESTART_SECONDS)


class ApiServer:
    """An API server in this process, with its state in one folder. For laptops and tests, not for production.

    Attributes:
        url: address of the server, known after `start`.
        ca_file: the CA certificate with which clients verify the server.
        faults: faults that tests inject.
        pod_logs: the function that reads containers' logs; None until a kubelet stand-in sets it.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        feature_gates: Mapping[str, bool] | None = None,
        cel_check: CelCheck | None = None,
        history: int = 4096,
        bookmark_seconds: float = 60.0,
    ) -> None:
        """Create a server that does not run yet. `start` starts it.

        Args:
            data_dir: the folder of the state and the credentials; created if it is missing.
            host: the address to listen on.
            port: the port; 0 for the port of the last run, or any free port.
            feature_gates: gates by name that differ from Kubernetes 1.37's defaults.
            cel_check: returns why a CEL expression is invalid; None: only the length of expressions is checked.
            history: number of changes that are kept for watches, for each kind.
            bookmark_seconds: the time between two bookmarks of a watch.

        Raises:
            UsageError: a feature gate is unknown.
        """
        self._data_dir = data_dir
        self._host = host
        self._port = port
        self._history = history
        self._bookmark_seconds = bookmark_seconds
        self._gates = FeatureGates(dict(feature_gates or {}))
        self._cel_check = cel_check
        self._database = Database(data_dir / "state.db")
        self._credentials: identity.Credentials | None = None
        self._store: Store | None = None
        self._lock: int | None = None
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.faults = Faults()
        self.pod_logs: PodLogs | None = None
        self.url = ""
        self.ca_file = data_dir / "ca.crt"

    async def start(self) -> None:
        """Open the state and listen.

        Raises:
            UsageError: the folder can't be used, or the port is taken.
        """
        try:
            self._credentials = await asyncio.to_thread(self._prepare)
            saved = await asyncio.to_thread(self._database.load)
        except OSError as error:
            raise UsageError(f"data folder {self._data_dir}: {error}") from error
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise UsageError(
                f"state file {self._data_dir / 'state.db'} can't be read: {error}; "
                "move it away to start with an empty cluster"
            ) from error
        store = self._store = Store(self._database, self._history, get_schema)
        store.restore(*saved)
        server = ServerParts(store, Registry(), self._gates, self._cel_check)
        namespaces.create_initial(server)
        controllers = (
            DefinitionController(server),
            namespaces.NamespaceController(server),
            GarbageCollector(server),
            EventExpiry(server),
            QuotaController(server),
        )
        handler = Handler(
            server, self._credentials.tokens, self.faults, self._bookmark_seconds, lambda: self.pod_logs
        )
        await self._listen(handler, self._credentials)
        self._tasks = [
            asyncio.create_task(_run_forever(each), name=type(each).__name__) for each in controllers
        ]

    def _prepare(self) -> identity.Credentials:
        self._data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_lock()
        self._database.open()
        return identity.load_credentials(self._data_dir, self._host)

    def _take_lock(self) -> None:
        # If two servers used one state, both would assign the same revisions. The kernel frees the lock when
        # the process ends.
        lock = os.open(self._data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(f"data folder {self._data_dir}: another API server uses it") from None
        self._lock = lock

    def _free_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _listen(self, handler: Handler, credentials: identity.Credentials) -> None:
        # If a client disconnects, its handler is cancelled, which ends its watch at once. Writes have no await
        # at which a cancellation could interrupt them. As with the real server, bodies are never decompressed,
        # so a small body can't become a large one.
        server = web.Server(
            handler,
            request_factory=_make_request,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            logger=_HTTP_LOG,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        port = self._port or await asyncio.to_thread(self._last_port)
        try:
            await self._bind(port, credentials)
        except OSError as error:
            if self._port:
                reason = error.strerror if error.errno != errno.EADDRINUSE else "another process uses the port"
                raise UsageError(
                    f"can't listen on {self._host}:{port}: {reason}; choose another port, or 0 for a free one"
                ) from error
            await self._bind(0, credentials)
        port = self._runner.addresses[0][1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"https://{host}:{port}"
        await asyncio.to_thread((self._data_dir / "port").write_text, str(port))

    def _last_port(self) -> int:
        # The address does not change at a restart, so existing kubeconfigs stay valid.
        with contextlib.suppress(OSError, ValueError):
            return int((self._data_dir / "port").read_text())
        return 0

    async def _bind(self, port: int, credentials: identity.Credentials) -> None:
        if self._runner is not None:
            site = web.TCPSite(self._runner, self._host, port, ssl_context=credentials.context, backlog=512)
            await site.start()

    async def stop(self) -> None:
        """End watches and tasks, and close the socket and the state. Safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self._database.close()
        self._free_lock()

    def compact(self) -> None:
        """Drop the history of changes.

        Watches and pages that need an older revision are then answered with 410. For tests of clients.
        """
        if self._store is not None:
            self._store.compact()

    def kubeconfig(self, user: Literal["admin"] | str = "admin") -> Object:
        """Return a kubeconfig document.

        Args:
            user: `admin`, `node:NAME` (a kubelet), `driver:NAME` (a driver's service account bound
                to node NAME) or `sa:NAMESPACE:NAME`.

        Raises:
            UsageError: the server was never started, or the user is unknown.
        """
        if self._credentials is None:
            raise UsageError("the API server has not been started")
        if identity.parse_user(user) is None:
            raise UsageError(f"user {user!r}: must be admin, node:NAME, driver:NODE or sa:NAMESPACE:NAME")
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        name = "dradriver"
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": self.url,
            "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": self._credentials.tokens.token(user)}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        }  # fmt: skip

    def write_kubeconfig(self, path: Path, user: str = "admin") -> None:
        """Write a kubeconfig file that only its owner can read. Blocking.

        The file is replaced atomically: if the process dies, either the old file or the new file exists.

        Args:
            path: the file. Missing parent folders are created.
            user: see `kubeconfig`.

        Raises:
            UsageError: see `kubeconfig`.
        """
        text = json.dumps(self.kubeconfig(user), indent=2) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".new")
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
