"""Watches the folder in which drivers create their registration sockets, and registers the drivers."""

import asyncio
import logging
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

import grpc

from dradriver.cluster.kubelet.plugins.plugin import CHANNEL_OPTIONS
from dradriver.cluster.kubelet.plugins.plugin_store import PluginStore
from dradriver.cluster.kubelet.plugins.services import choose_services
from dradriver.errors import DraError
from dradriver.wire import registration_v1
from dradriver.wire.stubs import registration_v1_grpc

__all__ = ["RegistryWatcher"]

_log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 10.0
_INFO_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 5.0
_MIN_RETRY_SECONDS: Final = 0.5
_MAX_RETRY_SECONDS: Final = 122.0
_PLUGIN_TYPE: Final = "DRAPlugin"


class _SocketId(NamedTuple):
    """Distinguishes a socket from a later socket with the same name."""

    inode: int
    modified: int


class RegistryWatcher:
    """Adds drivers to the plugin store and removes them as sockets appear and disappear.

    `run()` runs until cancelled.

    The watcher calls every socket whose name does not begin with a dot, to get the driver's name and services.
    If the registration fails, the watcher reports the reason to the driver and retries. Each wait is twice as
    long as the wait before.
    """

    def __init__(self, folder: Path, store: PluginStore) -> None:
        self._folder = folder
        self._store = store
        self._attempts: dict[Path, tuple[_SocketId, asyncio.Task[None]]] = {}
        self._registered: dict[Path, tuple[str, str]] = {}

    async def run(self) -> None:
        """Watch until cancelled, then end the watcher's tasks. The store keeps the registered drivers."""
        try:
            while True:
                await self._sync_sockets(await asyncio.to_thread(_find_sockets, self._folder))
                await asyncio.sleep(_PERIOD_SECONDS)
        finally:
            tasks = [task for _, task in self._attempts.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sync_sockets(self, found: dict[Path, _SocketId]) -> None:
        for path, (stamp, task) in list(self._attempts.items()):
            if found.get(path) != stamp:
                del self._attempts[path]
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self._deregister(path)
        for path in found.keys() - self._attempts.keys():
            task = asyncio.create_task(self._retry_registration(path), name=f"register {path.name}")
            self._attempts[path] = (found[path], task)

    async def _deregister(self, path: Path) -> None:
        if registered := self._registered.pop(path, None):
            await self._store.deregister(*registered)

    async def _retry_registration(self, path: Path) -> None:
        wait = _MIN_RETRY_SECONDS
        while True:
            try:
                await self._register(path)
            except DraError as error:
                _log.warning("registration socket %s: %s", path, error)
            except (grpc.aio.AioRpcError, TimeoutError) as error:
                _log.warning("registration socket %s: no answer: %s", path, error)
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, _MAX_RETRY_SECONDS)

    async def _register(self, path: Path) -> None:
        """Make one attempt to register, and notify the driver of success or the reason for a rejection.

        Raises:
            DraError: the driver can't be used.
            AioRpcError, TimeoutError: the driver did not answer.
        """
        async with grpc.aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS) as channel:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await channel.channel_ready()
            stub = registration_v1_grpc.RegistrationStub(channel)
            info = await stub.GetInfo(registration_v1.InfoRequest(), timeout=_INFO_SECONDS)
            endpoint = info.endpoint or str(path)
            try:
                self._add_to_store(path, info, endpoint)
            except DraError as error:
                await _notify(stub, str(error))
                raise
            try:
                await _notify(stub, "")
            except grpc.aio.AioRpcError:
                await self._deregister(path)
                raise

    def _add_to_store(self, path: Path, info: registration_v1.PluginInfo, endpoint: str) -> None:
        if info.type != _PLUGIN_TYPE:
            raise DraError(
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
            )
        offered = list(info.supported_versions)
        try:
            choose_services(info.name, endpoint, offered)
        except DraError as error:
            raise DraError(f"RegisterPlugin error -- plugin validation failed with err: {error}") from None
        try:
            self._store.register(info.name, endpoint, offered)
        except DraError as error:
            raise DraError(f"RegisterPlugin error -- plugin registration failed with err: {error}") from None
        self._registered[path] = (info.name, endpoint)


async def _notify(stub: registration_v1_grpc.RegistrationStub, error: str) -> None:
    status = registration_v1.RegistrationStatus(plugin_registered=not error, error=error)
    await stub.NotifyRegistrationStatus(status, timeout=_NOTIFY_SECONDS)


def _find_sockets(folder: Path) -> dict[Path, _SocketId]:
    """Return the sockets in a folder and its subfolders, except names that begin with a dot."""
    found: dict[Path, _SocketId] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            try:
                status = path.lstat()
            except OSError:
                continue  # the socket is gone again
            if stat.S_ISSOCK(status.st_mode) and not name.startswith("."):
                found[path] = _SocketId(status.st_ino, status.st_mtime_ns)
    return found
