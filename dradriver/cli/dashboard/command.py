"""The command `dradriver dashboard`."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import click

from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.errors import UsageError
from dradriver.http_server.hosts import is_loopback
from dradriver.kube import Client

__all__ = ["dashboard"]

_TIMEOUT_SECONDS: Final = 30.0
_RELOAD_SECONDS: Final = 10.0
_PEM: Final = click.Path(path_type=Path)


@click.command(short_help="Serve a read-only page with the devices of a cluster.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; empty: all addresses."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0: any free port."
)
@click.option(
    "--visitors-rights",
    is_flag=True,
    help="Show each visitor only what the visitor's own bearer token may list. Required if --host is not a "
    "loopback address.",
)
@click.option("--tls-cert-file", type=_PEM, help="File with the certificate (PEM); reloaded when it changes.")
@click.option(
    "--tls-private-key-file", type=_PEM, help="File with the private key (PEM); reloaded when it changes."
)
@settings_options
@cluster_options
def dashboard(
    access: Access,
    settings: AttemptSettings,
    host: str,
    port: int,
    visitors_rights: bool,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
) -> None:
    """Serve a read-only page with the devices of a cluster until SIGTERM or SIGINT.

    The page shows nodes, partitions and who holds them, what waits and why, and what changed. It follows the
    cluster. By default it listens on 127.0.0.1 and shows what your kubeconfig may list.
    """
    if not is_loopback(host) and not visitors_rights:
        raise UsageError(f"--host {host or '(all addresses)'}: requires --visitors-rights")
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file: must be given together")
    pair = (tls_cert_file, tls_private_key_file) if tls_cert_file and tls_private_key_file else None
    asyncio.run(_serve(access, settings, host, port, visitors_rights, pair))


async def _serve(
    access: Access,
    settings: AttemptSettings,
    host: str,
    port: int,
    visitors_rights: bool,
    pair: tuple[Path, Path] | None,
) -> None:
    from dradriver.cli.dashboard.explaining import CachedExplanations  # noqa: PLC0415 - slow to import
    from dradriver.http_server.certificate import Certificate  # noqa: PLC0415 - slow to import
    from dradriver.monitor import LiveOverview  # noqa: PLC0415 - slow to import
    from dradriver.monitor.dashboard import Dashboard, KubeVisitors, OwnRights  # noqa: PLC0415 - slow to import

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    certificate = await asyncio.to_thread(Certificate, *pair) if pair else None
    async with (
        await Client.connect(access.kubeconfig, access.context, timeout=_TIMEOUT_SECONDS) as client,
        LiveOverview(client) as live,
        asyncio.TaskGroup() as tasks,
    ):
        server = Dashboard(
            live,
            KubeVisitors(client) if visitors_rights else OwnRights(),
            CachedExplanations(client, live, settings),
            host=host,
            port=port,
            context=certificate.context if certificate else None,
        )
        await server.start()
        try:
            reloading = tasks.create_task(certificate.follow(_RELOAD_SECONDS)) if certificate else None
            scheme, name = "https" if pair else "http", f"[{host}]" if ":" in host else host or "localhost"
            click.echo(f"Serving the dashboard on {scheme}://{name}:{server.port}/ (Ctrl-C ends it).", err=True)
            await stop.wait()
            if reloading is not None:
                reloading.cancel()
        finally:
            await server.stop()
