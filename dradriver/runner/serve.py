"""Run a driver's process: connect, serve the kubelet or publish until a signal, and stop gracefully."""

import asyncio
import logging
import signal
from typing import Final

from dradriver.driver import AnyDriver, BindingDriver, ControllerDriver, Driver, NodeBindingDriver, PoolDriver
from dradriver.kube import Client
from dradriver.kube.leader import Leader
from dradriver.kube.leading import new_identity
from dradriver.model.core.lease import LeaseTiming
from dradriver.node import Plugin, PluginConfig
from dradriver.node.reporting.log_context import log_fields
from dradriver.publish import OwnerRef
from dradriver.runner.endpoints import Endpoints
from dradriver.runner.leading import LeadingProcess
from dradriver.runner.logs import set_log_context
from dradriver.runner.pools import PoolProcess
from dradriver.runner.settings import Settings

__all__ = ["GRACE", "serve"]

GRACE: Final = 25.0
"""Seconds for calls in flight after a signal; less than the usual 30 s until a pod gets SIGKILL."""

_log = logging.getLogger("dradriver.runner")


async def serve(driver: AnyDriver, settings: Settings) -> None:
    """Run the driver until SIGTERM or SIGINT.

    Claims stay prepared. If the process is killed instead, the next process continues its work.

    Raises:
        DraError: the process cannot start, or the plugin failed.
    """
    set_log_context({"driver": driver.name}, log_fields)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _ask_to_stop, stop, number)
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    agent = f"dradriver/{driver.name}"
    async with await Client.connect(kubeconfig, settings.context or None, user_agent=agent) as client:
        process = _process(driver, client, settings)
        async with client.connect_early(), Endpoints(process, settings.metrics_host, settings.metrics_port):
            await process.run(stop, GRACE)
    _log.info("driver %s stopped", driver.name)


def _process(driver: AnyDriver, client: Client, settings: Settings) -> Plugin | LeadingProcess:
    if isinstance(driver, Driver):
        return _node_process(driver, client, settings)
    namespace = settings.lease_namespace or client.namespace
    leader = Leader(client, driver.name, namespace, new_identity(), LeaseTiming(settings.lease_seconds))
    guarded = client.with_guard(leader.limit_write)
    lease = f"{namespace}/{driver.name}"
    if not isinstance(driver, PoolDriver):
        from dradriver.runner.controllers import ControllerProcess  # noqa: PLC0415 - few drivers are controllers

        _log.info("controller driver %s starts", driver.name)
        return LeadingProcess(ControllerProcess(driver, guarded, lease, leader.check), leader)
    owner = OwnerRef.parse(settings.owner) if settings.owner else None
    retention = f"are deleted with {owner}" if owner else "stay until they are withdrawn"
    _log.info("pool driver %s starts; its ResourceSlices %s", driver.name, retention)
    if isinstance(driver, BindingDriver) and isinstance(driver, ControllerDriver):
        from dradriver.runner.controllers import BindingControllerProcess  # noqa: PLC0415 - few drivers do both

        both = BindingControllerProcess(driver, driver, guarded, owner, lease=lease, guard=leader.check)
        return LeadingProcess(both, leader)
    if isinstance(driver, BindingDriver):
        from dradriver.runner.binding import BindingProcess  # noqa: PLC0415 - few drivers bind

        return LeadingProcess(BindingProcess(driver, guarded, owner, leader.check), leader)
    return LeadingProcess(PoolProcess(driver, guarded, owner, leader.check), leader)


def _node_process(driver: Driver, client: Client, settings: Settings) -> Plugin:
    _log.info("driver %s starts on node %s", driver.name, settings.node_name)
    config = _plugin_config(settings)
    if isinstance(driver, NodeBindingDriver):
        from dradriver.runner.binding_node import BindingPlugin  # noqa: PLC0415 - see above

        return BindingPlugin(driver, client, config)
    return Plugin(driver, client, config)


def _ask_to_stop(stop: asyncio.Event, number: signal.Signals) -> None:
    _log.info("%s: stopping after the calls in flight", number.name)
    stop.set()


def _plugin_config(settings: Settings) -> PluginConfig:
    return PluginConfig(
        node_name=settings.node_name,
        plugins_dir=settings.plugins_dir,
        registry_dir=settings.registry_dir,
        cdi_dir=settings.cdi_dir,
        pod_uid=settings.pod_uid,
    )
