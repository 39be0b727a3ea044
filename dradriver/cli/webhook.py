"""`dradriver webhook`: validates opaque configuration when an object is written."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from dradriver.admission import ConfigClasses, known_configs
from dradriver.runner import load_driver

__all__ = ["webhook"]

_RELOAD_SECONDS: Final = 10.0
_DRAIN_SECONDS: Final = 3.0


@click.command(short_help="Serve the admission webhook for drivers' opaque configuration.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Driver whose configuration is validated: an installed one, or module:Class; can be repeated.",
)
@click.option("--host", default="", help="Address to listen on, IPv4 or IPv6.  [default: all]")
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="HTTPS port.")
@click.option(
    "--tls-cert-file",
    type=click.Path(path_type=Path),
    required=True,
    help="File with the certificate (PEM); reloaded when it changes.",
)
@click.option(
    "--tls-private-key-file",
    type=click.Path(path_type=Path),
    required=True,
    help="File with the private key (PEM); reloaded when it changes.",
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
def webhook(  # one parameter for each option
    drivers: Sequence[str],
    host: str,
    port: int,
    tls_cert_file: Path,
    tls_private_key_file: Path,
    log_format: str,
    log_level: str,
) -> None:
    """Serve the admission webhook for drivers' opaque configuration until SIGTERM or SIGINT.

    The webhook rejects a ResourceClaim, ResourceClaimTemplate or DeviceClass with configuration that is invalid
    for its driver. The message names all errors. Paths: /validate-resource-claim-parameters, /healthz, /readyz,
    /metrics.
    """
    from dradriver.admission.server import THREADS  # noqa: PLC0415 - slow to import
    from dradriver.runner.entry import OK, end_threads  # noqa: PLC0415
    from dradriver.runner.logs import start_log  # noqa: PLC0415 - only `run` and this command write a log

    start_log(log_format, log_level)
    known = known_configs(map(load_driver, drivers))
    asyncio.run(_serve(known, host, port, tls_cert_file, tls_private_key_file))
    end_threads(THREADS, OK)


async def _serve(known: ConfigClasses, host: str, port: int, cert_file: Path, key_file: Path) -> None:
    from dradriver.admission.server import Webhook  # noqa: PLC0415 - slow to import
    from dradriver.http_server.certificate import Certificate  # noqa: PLC0415 - slow to import

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    certificate = await asyncio.to_thread(Certificate, cert_file, key_file)
    server = Webhook(known, certificate.context, host=host, port=port)
    await server.start()
    reloading = asyncio.create_task(certificate.follow(_RELOAD_SECONDS), name="certificate")
    try:
        click.echo(
            f"Validating the configuration of {', '.join(sorted(known))} on port {server.port}.", err=True
        )
        await stop.wait()
        server.drain()
        await asyncio.sleep(_DRAIN_SECONDS)
    finally:
        await server.stop()
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
