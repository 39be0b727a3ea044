"""`dradriver scheduler run`: runs the extender."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.scheduler.options import (
    DEFAULT_PORT,
    binding_timeout_option,
    lease_seconds_option,
    names_option,
)
from dradriver.errors import UsageError
from dradriver.extender.addresses import check_listening
from dradriver.extender.scheduler_config import check_names
from dradriver.kube import Client
from dradriver.model.core.lease import LeaseTiming

if TYPE_CHECKING:
    from dradriver.control.settings import SchedulerSettings
    from dradriver.extender.serving.assembly import LeaderSettings
    from dradriver.extender.serving.process import SchedulerProcess
    from dradriver.extender.serving.server import ExtenderServer

__all__ = ["run"]

_RELOAD_SECONDS: Final = 10.0
_GRACE: Final = 20.0
"""Seconds for calls in flight after a signal; less than the usual 30 s until a pod gets SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """Where the process listens."""

    host: str
    port: int
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    client_ca_file: Path | None
    metrics_host: str
    metrics_port: int
    profiling: bool


@click.command(short_help="Run the extender until SIGTERM or SIGINT.")
@cluster_options
@names_option
@settings_options
@binding_timeout_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address for the kube-scheduler; empty: all."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port for the kube-scheduler.",
)
@click.option(
    "--tls-cert-file",
    type=click.Path(path_type=Path),
    help="File with the certificate (PEM); reloaded when it changes. Without it, only an address of this "
    "machine is possible.",
)
@click.option(
    "--tls-private-key-file",
    type=click.Path(path_type=Path),
    help="File with the private key (PEM); reloaded when it changes.",
)
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path),
    help="File with the certificates (PEM) of the authority of kube-scheduler's client certificate; reloaded "
    "when it changes.",
)
@click.option("--metrics-host", default="", help="Address for --metrics-port.  [default: all]")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Second port, for /metrics, /livez and /readyz without TLS; 0: none.  [default: 0]",
)
@click.option("--profiling", is_flag=True, help="Also serve /debug/tasks and /debug/profile on --port.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether only the holder of the Lease schedules. Without it, only one process may run.",
)
@click.option("--lease-name", default="dradriver-scheduler", show_default=True, help="Lease of the extender.")
@click.option(
    "--lease-namespace",
    default="",
    help="Namespace of the Lease.  [default: that of the service account or context]",
)
@lease_seconds_option
@click.option(
    "--kube-scheduler-lease",
    metavar="[NAMESPACE/]NAME",
    default="",
    help="Lease of the kube-scheduler in the same pod: lead only while it leads.  [default: do not follow it]",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    envvar="DRADRIVER_LOG_FORMAT",
    show_default=True,
    help="Format of the log on stderr.  [$DRADRIVER_LOG_FORMAT]",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    envvar="DRADRIVER_LOG_LEVEL",
    show_default=True,
    help="Lowest level that is logged.  [$DRADRIVER_LOG_LEVEL]",
)
def run(  # noqa: PLR0913, PLR0917 - one argument an option
    access: Access,
    scheduler_names: Sequence[str],
    settings: AttemptSettings,
    binding_timeout: float,
    host: str,
    port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    metrics_host: str,
    metrics_port: int,
    profiling: bool,
    leader_elect: bool,
    lease_name: str,
    lease_namespace: str,
    lease_seconds: int,
    kube_scheduler_lease: str,
    log_format: str,
    log_level: str,
) -> None:
    """Schedule pods with devices for a kube-scheduler, until SIGTERM or SIGINT.

    The kube-scheduler needs the configuration that `dradriver scheduler config` writes. Paths: /filter,
    /prioritize, /preempt and /bind for the kube-scheduler; /livez, /readyz and /metrics.
    """
    check_names(scheduler_names)
    check_listening(host, (tls_cert_file, tls_private_key_file, client_ca_file))
    # These imports are slow.
    from dradriver.aio.bulk_load import collect_garbage_rarely  # noqa: PLC0415
    from dradriver.aio.event_loop import DriverEventLoop  # noqa: PLC0415
    from dradriver.control.settings import SchedulerSettings  # noqa: PLC0415
    from dradriver.extender.serving.assembly import LeaderSettings  # noqa: PLC0415
    from dradriver.runner.logs import start_log  # noqa: PLC0415

    election = None
    if leader_elect:
        election = LeaderSettings(
            name=lease_name,
            namespace=lease_namespace,
            timing=LeaseTiming(lease_seconds),
            kube_scheduler=_split_lease(kube_scheduler_lease),
        )
    elif kube_scheduler_lease:
        raise UsageError("--kube-scheduler-lease: needs --leader-elect")
    serving = _Serving(
        host=host,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        profiling=profiling,
    )
    start_log(log_format, log_level)
    collect_garbage_rarely()
    scheduling = SchedulerSettings(
        features=settings.features,
        binding_timeout=timedelta(seconds=binding_timeout),
        budget=settings.budget,
        order=settings.order,
    )
    with asyncio.Runner(loop_factory=DriverEventLoop) as runner:
        runner.run(_run(access, scheduler_names, scheduling, election, serving))


def _split_lease(text: str) -> tuple[str, str] | None:
    """Return namespace and name of a Lease; None if there is no text."""
    namespace, _, name = text.rpartition("/")
    return (namespace, name) if name else None


async def _run(
    access: Access,
    scheduler_names: Sequence[str],
    settings: "SchedulerSettings",
    election: "LeaderSettings | None",
    serving: _Serving,
) -> None:
    from dradriver.extender.serving.assembly import build_process  # noqa: PLC0415 - slow to import

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = "dradriver-scheduler"
    async with await Client.connect(access.kubeconfig, access.context, user_agent=agent) as client:
        process = build_process(client, scheduler_names, settings, election)
        async with AsyncExitStack() as stack:
            server = await _start_server(process, serving, stack)
            names = ", ".join(scheduler_names)
            click.echo(f"Serving the kube-scheduler of {names} on port {server.port}.", err=True)
            await process.run(stop, _GRACE)


async def _start_server(
    process: "SchedulerProcess", serving: _Serving, stack: AsyncExitStack
) -> "ExtenderServer":
    """Listen until the end of `stack`."""
    from dradriver.aio.tasks import end  # noqa: PLC0415
    from dradriver.extender.serving.server import ExtenderServer  # noqa: PLC0415 - slow to import
    from dradriver.http_server.certificate import Certificate  # noqa: PLC0415

    context = None
    if serving.tls_cert_file is not None and serving.tls_private_key_file is not None:
        files = (serving.tls_cert_file, serving.tls_private_key_file, serving.client_ca_file)
        certificate = await asyncio.to_thread(Certificate, *files)
        reloading = asyncio.create_task(certificate.follow(_RELOAD_SECONDS), name="certificate")
        stack.push_async_callback(end, {reloading})
        context = certificate.context
    server = ExtenderServer(
        process,
        host=serving.host,
        port=serving.port,
        context=context,
        health_host=serving.metrics_host,
        health_port=serving.metrics_port or None,
        profiling=serving.profiling,
    )
    await server.start()
    stack.push_async_callback(server.stop)
    return server
