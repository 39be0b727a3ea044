"""Reads settings of the allocator from command-line options, and creates the allocator for a world."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

import click

from dradriver.aio.bulk_load import bulk_load
from dradriver.allocator import BUDGET, ORDERED, ORDERS, Features, Order
from dradriver.allocator.placement import Placer
from dradriver.cli.world import World, allocation_node
from dradriver.extras import require
from dradriver.model.resource.taint_rule import apply_rules

__all__ = ["AttemptSettings", "allocator_options", "build_placer", "settings_options"]

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """Settings of the allocator.

    Attributes:
        order: order in which nodes and devices are preferred.
        features: enabled features.
        budget: work for one pod, in microseconds of one core, after which the result is "undecided".
        taint_rules: whether DeviceTaintRules apply (DRADeviceTaintRules).
    """

    order: Order
    features: Features
    budget: int
    taint_rules: bool = True

    @classmethod
    def of(cls, order: str, feature_gates: str, budget: int) -> "AttemptSettings":
        """Return settings for the values of the options.

        Args:
            order: a key of `ORDERS`.
            feature_gates: `A=true,B=false`; empty for the defaults of Kubernetes 1.37.
            budget: see `AttemptSettings`.

        Raises:
            UsageError: a feature gate is unknown, needs another gate that is off, or is always on.
            MissingExtraError: the embedded control plane, which defines the gates, is not installed.
        """
        if not feature_gates:
            return cls(ORDERS[order], Features(), budget)
        require("cluster", "--feature-gates")
        from dradriver.cluster.apiserver.kinds.gates import FeatureGates  # noqa: PLC0415 - slow to import

        gates = FeatureGates.parse(feature_gates)
        return cls(
            ORDERS[order],
            Features.of_gates(gates.resolved()),
            budget,
            taint_rules=gates.enabled("DRADeviceTaintRules"),
        )


def settings_options(command: F) -> F:
    """Add the options `--order`, `--feature-gates` and `--budget`.

    Args:
        command: the command. It gets the argument `settings`, an `AttemptSettings`.

    Returns:
        The command with the options.
    """

    @wraps(command)
    def call(*args: object, order: str, feature_gates: str, budget: int, **rest: object) -> object:
        return command(*args, settings=AttemptSettings.of(order, feature_gates, budget), **rest)

    return cast(F, allocator_options(call))


def allocator_options(command: F) -> F:
    """Add the options `--order`, `--feature-gates` and `--budget`.

    Args:
        command: the command. It gets the arguments `order`, `feature_gates` and `budget`.

    Returns:
        The command with the options.
    """
    order = click.option(
        "--order",
        type=click.Choice(list(ORDERS)),
        default=ORDERED.name,
        show_default=True,
        help="Preference among devices: ordered, as Kubernetes allocates; packed, which keeps large "
        "partitions free.",
    )
    gates = click.option(
        "--feature-gates",
        default="",
        help="Kubernetes feature gates, as A=true,B=false.  [default: those of Kubernetes 1.37]",
    )
    budget = click.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        default=BUDGET // 1000,
        show_default=True,
        callback=lambda _context, _option, milliseconds: math.ceil(1000 * milliseconds),
        help="Milliseconds of work on one core after which the result is 'undecided'. The work is estimated, "
        "so the result does not depend on the computer.",
    )
    return order(gates(budget(command)))


@bulk_load()
def build_placer(world: World, settings: AttemptSettings) -> Placer:
    """Return an allocator that knows the objects of the world.

    Args:
        world: the objects. Allocated claims count as devices in use.
        settings: settings of the allocator.
    """
    placer = Placer(order=settings.order, features=settings.features, budget=settings.budget)
    rules = world.taint_rules if settings.taint_rules else []
    for source in world.slices:
        placer.put_slice(apply_rules(source, rules) if rules else source)
    for device_class in world.classes.values():
        placer.put_class(device_class)
    for claim in world.claims.values():
        if claim.allocation is not None:
            placer.put_claim(claim)
    for node in world.known_nodes().values():
        placer.put_node(allocation_node(node))
    placer.update()
    return placer
