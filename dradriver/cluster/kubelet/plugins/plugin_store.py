"""Stores the registered drivers of the node, and deletes ResourceSlices of disconnected drivers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from dradriver.cluster.kubelet.claims.health import HealthCache
from dradriver.cluster.kubelet.plugins.plugin import RegisteredPlugin
from dradriver.cluster.kubelet.plugins.services import choose_services
from dradriver.errors import DraError

__all__ = ["NotRegisteredError", "PluginStore"]

_log = logging.getLogger(__name__)


_REGISTRATION_GRACE_SECONDS: Final = 5.0
"""Seconds from the first use of a missing driver to the log message, because the driver may still register."""


class NotRegisteredError(DraError):
    """No instance of the driver is registered. The store logs this once, so callers need not log it."""


class PluginStore:
    """Driver instances in the order of their registration.

    If a driver has no connected instance for `wipe_seconds`, its ResourceSlices are deleted.
    """

    def __init__(
        self,
        wipe: Callable[[str], Awaitable[None]],
        *,
        wipe_seconds: float,
        call_timeout: float,
        health: HealthCache,
        on_usable: Callable[[str], None],
        on_health_changed: Callable[[str, set[tuple[str, str]]], None],
    ) -> None:
        self._wipe = wipe
        self._wipe_seconds = wipe_seconds
        self._call_timeout = call_timeout
        self._health = health
        self._on_usable = on_usable
        self._on_health_changed = on_health_changed
        self._plugins: dict[str, list[RegisteredPlugin]] = {}
        self._wipes: dict[str, asyncio.Task[None]] = {}
        self._missing_warnings: dict[str, asyncio.Task[None]] = {}

    def get(self, driver: str) -> RegisteredPlugin:
        """Return the instance to call: the latest connected instance, or else the latest instance.

        Raises:
            NotRegisteredError: no instance is registered. The message is the real kubelet's message.
        """
        plugins = self._plugins.get(driver)
        if not plugins:
            if driver not in self._missing_warnings:
                self._missing_warnings[driver] = asyncio.create_task(
                    _warn_if_missing(driver), name=f"wait for {driver}"
                )
            raise NotRegisteredError(f"DRA driver {driver} is not registered")
        return next((plugin for plugin in reversed(plugins) if plugin.connected), plugins[-1])

    def register(self, driver: str, endpoint: str, offered: Sequence[str]) -> None:
        """Add an instance and connect to it.

        Raises:
            DraError: the instance offers no usable service, or the driver has already registered the endpoint.
        """
        services = choose_services(driver, endpoint, offered)
        plugins = self._plugins.get(driver, [])
        if any(plugin.endpoint == endpoint for plugin in plugins):
            raise DraError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        plugin = RegisteredPlugin(
            driver,
            endpoint,
            services,
            call_timeout=self._call_timeout,
            on_change=self._connection_changed,
            health=self._health,
            on_health_changed=self._on_health_changed,
        )
        self._plugins[driver] = [*plugins, plugin]
        if warning := self._missing_warnings.pop(driver, None):
            warning.cancel()
        plugin.start()
        _log.info("driver %s at %s is registered (%s)", driver, endpoint, services.dra)
        self._connection_changed(driver)

    async def deregister(self, driver: str, endpoint: str) -> None:
        """Remove an instance. An unknown instance is ignored."""
        plugins = self._plugins.get(driver, [])
        remaining = [plugin for plugin in plugins if plugin.endpoint != endpoint]
        if len(remaining) == len(plugins):
            return
        if remaining:
            self._plugins[driver] = remaining
        else:
            del self._plugins[driver]
        _log.info("driver %s at %s is no longer registered", driver, endpoint)
        self._connection_changed(driver)
        for plugin in plugins:
            if plugin.endpoint == endpoint:
                await plugin.stop()

    async def stop(self) -> None:
        """End all connections and pending deletions of slices."""
        waiting = [*self._wipes.values(), *self._missing_warnings.values()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        plugins = [plugin for each in self._plugins.values() for plugin in each]
        self._plugins = {}
        for plugin in plugins:
            await plugin.stop()

    def _connection_changed(self, driver: str) -> None:
        if any(plugin.connected for plugin in self._plugins.get(driver, ())):
            if wipe := self._wipes.pop(driver, None):
                wipe.cancel()
            self._on_usable(driver)
        elif driver not in self._wipes:
            # The time of a pending deletion does not change, because the driver has not been connected since it
            # was scheduled.
            self._wipes[driver] = asyncio.create_task(self._wipe_later(driver), name=f"wipe slices of {driver}")

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._wipe_seconds)
        await self._wipe(driver)
        self._wipes.pop(driver, None)


async def _warn_if_missing(driver: str) -> None:
    await asyncio.sleep(_REGISTRATION_GRACE_SECONDS)
    _log.warning("DRA driver %s is not registered: pods with its claims can neither start nor end", driver)
