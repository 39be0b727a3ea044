"""The life of a driver's process: connect, serve the kubelet or publish until a signal, stop gracefully."""

import asyncio
import logging
import signal
from typing import Final

from dradriver.driver import BindingDriver, Driver, NodeBindingDriver, PoolDriver
from dradriver.kube import Client
from dradriver.kube.leader import Leader
from dradriver.model.core.lease import LeaseTiming
from dradriver.node import Plugin, PluginConfig
from dradriver.node.reporting.log_context import log_fields
from dradriver.publish import OwnerRef
from dradriver.runner.endpoints import Endpoints
from dradriver.runner.leading import LeadingProcess, new_identity
from dradriver.runner.logs import carry
from dradriver.runner.pools import PoolProcess
from dradriver.runner.settings import Settings

__all__ = ["GRACE", "serve"]

GRACE: Final = 25.0
"""Seconds for calls in flight after a signal; less than a pod's usual 30 s until SIGKILL."""

_log = logging.getLogger("dradriver.runner")


async def serve(driver: Driver | PoolDriver, settings: Settings) -> None:
    """Run the driver until SIGTERM or SIGINT.

    Claims stay prepared. If the process is killed instead, the next process continues its work.

    Raises:
        DraError: the process cannot start, or the plugin failed.
    """
    carry({"driver": driver.name}, log_fields)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _ask_to_stop, stop, number)
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    agent = f"dradriver/{driver.name}"
    async with await Client.connect(kubeconfig, settings.context or None, user_agent=agent) as client:
        process = _process(driver, client, settings)
        async with client.connecting(), Endpoints(process, settings.metrics_host, settings.metrics_port):
            await process.run(stop, GRACE)
    _log.info("driver %s stopped", driver.name)


def _process(driver: Driver | PoolDriver, client: Client, settings: Settings) -> Plugin | LeadingProcess:
    if isinstance(driver, PoolDriver):
        owner = OwnerRef.parse(settings.owner) if settings.owner else None
        stay = (
            f"its ResourceSlices go with {owner}"
            if owner
            else "its ResourceSlices stay until they are withdrawn"
        )
        _log.info("pool driver %s starts; %s", driver.name, stay)
        namespace = settings.lease_namespace or client.namespace
        timing = LeaseTiming(settings.lease_seconds)
        leader = Leader(client, driver.name, namespace, new_identity(), timing)
        guarded = client.guarded(leader.check)
        if isinstance(driver, BindingDriver):
            from dradriver.runner.binding import BindingProcess  # noqa: PLC0415 - few drivers bind

            return LeadingProcess(BindingProcess(driver, guarded, owner, leader.check), leader)
        return LeadingProcess(PoolProcess(driver, guarded, owner, leader.check), leader)
    _log.info("driver %s starts on node %s", driver.name, settings.node_name)
    config = _plugin_config(settings)
    if isinstance(driver, NodeBindingDriver):
        from dradriver.runner.binding_node import BindingPlugin  # noqa: PLC0415 - see above

        return BindingPlugin(driver, client, config)
    return Plugin(driver, client, config)


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
