"""Settings of the allocator from command-line options."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

import click

from dradriver.allocator import MAX_STEPS, ORDERED, ORDERS, Features, Order
from dradriver.extras import require

__all__ = ["AttemptSettings", "settings_options"]

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """Settings of the allocator.

    Attributes:
        order: order in which nodes and devices are preferred.
        features: enabled features.
        max_steps: how often a device may be tried on one node before the result is "undecided".
        taint_rules: whether DeviceTaintRules apply (DRADeviceTaintRules).
    """

    order: Order
    features: Features
    max_steps: int
    taint_rules: bool = True

    @classmethod
    def of(cls, order: str, feature_gates: str, max_steps: int) -> "AttemptSettings":
        """Return settings for the values of the options.

        Raises:
            UsageError: a feature gate is unknown, needs another one that is off, or is always on.
            MissingExtraError: the embedded control plane, which knows the gates, is not installed.
        """
        if not feature_gates:
            return cls(ORDERS[order], Features(), max_steps)
        require("cluster", "--feature-gates")
        from dradriver.cluster.apiserver.kinds.gates import FeatureGates  # noqa: PLC0415 - slow to import

        gates = FeatureGates.parse(feature_gates)
        return cls(
            ORDERS[order],
            Features.of_gates(gates.resolved()),
            max_steps,
            taint_rules=gates.enabled("DRADeviceTaintRules"),
        )


def settings_options(command: F) -> F:
    """Add the options `--order`, `--feature-gates` and `--max-steps`.

    The command gets the argument `settings`.
    """

    @wraps(command)
    def gather(*args: object, order: str, feature_gates: str, max_steps: int, **rest: object) -> object:
        return command(*args, settings=AttemptSettings.of(order, feature_gates, max_steps), **rest)

    order = click.option(
        "--order",
        type=click.Choice(list(ORDERS)),
        default=ORDERED.name,
        show_default=True,
        help="As Kubernetes would, or so that large partitions stay whole.",
    )
    gates = click.option(
        "--feature-gates", default="", help="Kubernetes feature gates, as A=true,B=false.  [default: 1.37's]"
    )
    steps = click.option(
        "--max-steps",
        type=click.IntRange(min=1),
        default=MAX_STEPS,
        show_default=True,
        help="Tries of a device on one node before the answer is 'undecided'.",
    )
    return cast(F, order(gates(steps(gather))))
