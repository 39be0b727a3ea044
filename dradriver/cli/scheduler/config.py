"""`dradriver scheduler config`: writes the configuration of the kube-scheduler."""

from collections.abc import Sequence
from datetime import timedelta

import click

from dradriver.allocator import ORDERS
from dradriver.cli.scheduler.options import (
    DEFAULT_PORT,
    binding_timeout_option,
    lease_seconds_option,
    names_option,
    order_option,
)
from dradriver.extender.scheduler_config import KubeSchedulerSettings, build_config
from dradriver.model.core.lease import LeaseTiming

__all__ = ["config"]


@click.command(short_help="Write the configuration of the kube-scheduler.")
@click.option(
    "--url",
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Address of the extender: http://HOST:PORT on the same machine or pod, else https://HOST:PORT.",
)
@names_option
@order_option
@binding_timeout_option
@click.option("--ca-file", default="", help="With https: certificates (PEM) of the extender's authority.")
@click.option("--cert-file", default="", help="With https: client certificate (PEM) of the kube-scheduler.")
@click.option("--key-file", default="", help="With https: private key (PEM) of this client certificate.")
@click.option(
    "--kubeconfig", default="", help="Kubeconfig of the kube-scheduler.  [default: its service account]"
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether only one of several kube-schedulers is active.",
)
@click.option(
    "--lease-name", default="dradriver-kube-scheduler", show_default=True, help="Lease of the kube-scheduler."
)
@click.option("--lease-namespace", default="kube-system", show_default=True, help="Namespace of this Lease.")
@lease_seconds_option
@click.option(
    "--qps",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="Requests of the kube-scheduler to the API server, in one second.",
)
@click.option(
    "--burst", type=click.IntRange(min=1), default=1000, show_default=True, help="Burst of these requests."
)
def config(  # noqa: PLR0913, PLR0917 - one argument an option
    url: str,
    scheduler_names: Sequence[str],
    order: str,
    binding_timeout: float,
    ca_file: str,
    cert_file: str,
    key_file: str,
    kubeconfig: str,
    leader_elect: bool,
    lease_name: str,
    lease_namespace: str,
    lease_seconds: int,
    qps: int,
    burst: int,
) -> None:
    """Write the KubeSchedulerConfiguration of the kube-scheduler to stdout, as YAML.

    Start the kube-scheduler with `--config FILE`. All file names are those that the kube-scheduler sees. This
    command does not read the files.
    """
    import yaml  # noqa: PLC0415 - slow to import

    settings = KubeSchedulerSettings(
        url=url,
        scheduler_names=scheduler_names,
        prefers_devices=ORDERS[order].compute_preferences is not None,
        binding_timeout=timedelta(seconds=binding_timeout),
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
        kubeconfig=kubeconfig,
        leader_elect=leader_elect,
        lease_name=lease_name,
        lease_namespace=lease_namespace,
        timing=LeaseTiming(lease_seconds),
        qps=qps,
        burst=burst,
    )
    click.echo(yaml.safe_dump(build_config(settings), sort_keys=False), nl=False)
