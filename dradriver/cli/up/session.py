"""Runs the embedded cluster and its drivers until a signal."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import click

from dradriver.allocator import ORDERS
from dradriver.cli.embedded_cluster import driver_processes
from dradriver.cli.supervision import DriverProcess, ProcessMessage, Supervisor
from dradriver.cli.terminal.output import progress_console
from dradriver.cli.up.code_changes import CodeReloader, find_code
from dradriver.cli.up.progress_lines import ProgressLines
from dradriver.cli.up.settings import UpSettings
from dradriver.cli.up.summary import copy_kubeconfig, find_missing_drivers, list_summary
from dradriver.runner import load_any

__all__ = ["run_cluster"]


async def run_cluster(settings: UpSettings) -> None:
    """Run the cluster and the drivers until SIGINT or SIGTERM.

    Args:
        settings: values of the options.

    Raises:
        UsageError: an option is invalid, or the data folder cannot be used.
        DraError: a part of the cluster cannot start.
    """
    # The embedded cluster and the HTTP endpoints are slow to import.
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415
    from dradriver.cluster.apiserver.kinds.gates import FeatureGates  # noqa: PLC0415
    from dradriver.cluster.clearing import clear_data_folder  # noqa: PLC0415
    from dradriver.runner.endpoints import Endpoints  # noqa: PLC0415

    gates = FeatureGates.parse(settings.feature_gates)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    lines = ProgressLines(lambda line: click.echo(line, err=True))
    if settings.fresh:
        for removed in await asyncio.to_thread(clear_data_folder, settings.data):
            lines.report(f"removed {removed}")
    async with AsyncExitStack() as stack:
        stack.callback(lines.finish)
        stack.enter_context(lines.logged())
        with progress_console().status("Starting the cluster"):
            cluster = await stack.enter_async_context(
                EmbeddedCluster(
                    settings.data,
                    nodes=settings.nodes,
                    port=settings.port,
                    feature_gates=gates.settings,
                    runtime=settings.runtime,
                    binding_timeout_seconds=settings.binding_timeout,
                    budget=settings.budget,
                    order=ORDERS[settings.order],
                    scoring=settings.scoring,
                )
            )
            await stack.enter_async_context(Endpoints(cluster, "127.0.0.1", settings.metrics_port))
        if settings.kubeconfig is not None:
            copy_kubeconfig(cluster.kubeconfig_path, settings.kubeconfig)
        processes = driver_processes(cluster, settings.drivers)
        await _start_drivers(stack, settings, processes, lines)
        for line in list_summary(cluster, settings, processes):
            click.echo(line)
        for warning in await find_missing_drivers(cluster, settings.drivers):
            lines.report(warning)
        await stop.wait()
        lines.report(f"stopping the containers; the state stays in {settings.data}")


async def _start_drivers(
    stack: AsyncExitStack, settings: UpSettings, processes: Sequence[DriverProcess], lines: ProgressLines
) -> None:
    def report(message: ProcessMessage) -> None:
        lines.report(str(message), key=message.text)

    if not settings.reload:
        await stack.enter_async_context(Supervisor(processes, report))
        return
    # Cached bytecode is compared by size and seconds only, so a driver could start with the old code.
    fresh = {"PYTHONDONTWRITEBYTECODE": "1"}
    processes = [replace(each, environment={**each.environment, **fresh}) for each in processes]
    supervisor = Supervisor(processes, report)
    code = {driver: find_code(load_any(driver).__module__) for driver in settings.drivers}
    # The code is compared with its state before the drivers start, so that no change is missed.
    await stack.enter_async_context(CodeReloader(code, supervisor.restart, lines.report))
    await stack.enter_async_context(supervisor)
