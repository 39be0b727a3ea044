"""The life of a driver's process: connect, serve the kubelet until a signal, stop gracefully."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dradriver.driver import Driver
from dradriver.errors import UsageError
from dradriver.kube import Client
from dradriver.node import Plugin, PluginConfig
from dradriver.runner.settings import Settings

__all__ = ["GRACE", "serve"]

GRACE: Final = 25.0
"""Seconds that calls in flight get to end after a signal; below a pod's usual 30 s until SIGKILL."""

_log = logging.getLogger("dradriver.runner")


async def serve(driver: Driver, settings: Settings) -> None:
    """Runs the driver until SIGTERM or SIGINT.

    Claims stay prepared; a process that is killed instead leaves what the next one picks up.

    Raises:
        DraError: the process can't start, or the plugin gave up.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _ask_to_stop, stop, number)
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    agent = f"dradriver/{driver.name}"
    async with await Client.connect(kubeconfig, settings.context or None, user_agent=agent) as client:
        plugin = Plugin(driver, client, _plugin_config(settings))
        with _metrics(plugin, settings.metrics_port):
            _log.info("driver %s starts on node %s", driver.name, settings.node_name)
            await plugin.run(stop, GRACE)
    _log.info("driver %s stopped", driver.name)


@contextmanager
def _metrics(plugin: Plugin, port: int) -> Iterator[None]:
    """Serves the plugin's metrics on all addresses, from a thread of its own; port 0 serves none."""
    if not port:
        yield
        return
    from prometheus_client import start_http_server  # noqa: PLC0415 - most processes on laptops serve none

    try:
        server, thread = start_http_server(port, registry=plugin.metrics.registry)
    except OSError as error:
        raise UsageError(f"--metrics-port {port}: {error.strerror}") from error
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


def _ask_to_stop(stop: asyncio.Event, number: signal.Signals) -> None:
    _log.info("%s: stopping, calls in flight may end", number.name)
    stop.set()


def _plugin_config(settings: Settings) -> PluginConfig:
    return PluginConfig(
        node_name=settings.node_name,
        plugins_dir=settings.plugins_dir,
        registry_dir=settings.registry_dir,
        cdi_dir=settings.cdi_dir,
        pod_uid=settings.pod_uid,
    )
