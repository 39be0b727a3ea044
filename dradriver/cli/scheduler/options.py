"""Options that `scheduler run` and `scheduler config` have, so that both processes get equal values."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from dradriver.allocator import ORDERED, ORDERS
from dradriver.extender.scheduler_config import SCHEDULER_LEASE

__all__ = ["DEFAULT_PORT", "binding_timeout_option", "lease_seconds_option", "names_option", "order_option"]

F = TypeVar("F", bound=Callable[..., object])

DEFAULT_PORT: Final = 9444


def names_option(command: F) -> F:
    """Add the option `--scheduler-name`. The command gets the argument `scheduler_names`."""
    return click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=("dradriver",),
        show_default=True,
        help="Profile of the kube-scheduler: `spec.schedulerName` of its pods; can be repeated.",
    )(command)


def order_option(command: F) -> F:
    """Add the option `--order`. The command gets the argument `order`, a key of `ORDERS`."""
    return click.option(
        "--order",
        type=click.Choice(list(ORDERS)),
        default=ORDERED.name,
        show_default=True,
        help="The --order of `dradriver scheduler run`: with packed, the extender decides on the node.",
    )(command)


def binding_timeout_option(command: F) -> F:
    """Add the option `--binding-timeout`. The command gets the argument `binding_timeout`, in seconds."""
    return click.option(
        "--binding-timeout",
        type=click.FloatRange(min=0, min_open=True, max=86400),
        default=600.0,
        show_default=True,
        help="Time limit in seconds for the binding conditions of a pod's devices; equal in `scheduler run` "
        "and `scheduler config`.",
    )(command)


def lease_seconds_option(command: F) -> F:
    """Add the option `--lease-seconds`. The command gets the argument `lease_seconds`."""
    return click.option(
        "--lease-seconds",
        type=click.IntRange(3, 3600),
        default=SCHEDULER_LEASE.duration,
        show_default=True,
        help="Seconds without a renewal after which another process acquires the Lease.",
    )(command)
