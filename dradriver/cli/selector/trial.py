"""Evaluates one selector on many devices."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from dradriver.allocator import PooledDevice
from dradriver.allocator.request.cel_selectors import selector_view
from dradriver.cel import CelError, EvaluationError, Selector
from dradriver.model.resource.claim import DeviceId

__all__ = ["Failure", "Trial", "evaluate_on", "point_at_error"]

_NO_KEY: Final = re.compile(r"no such key: (.*)")


@dataclass
class Failure:
    """An error of the evaluation.

    Attributes:
        error: the error.
        hint: proposed correction; None if no correction is known.
        devices: the devices with this error.
    """

    error: EvaluationError
    hint: str | None
    devices: list[DeviceId] = field(default_factory=list)


@dataclass
class Trial:
    """Result of the evaluation.

    Attributes:
        matches: devices that the selector selects.
        failures: the errors. Equal errors are one entry.
        devices: number of all devices.
        cost: cost of the most expensive evaluation, in CEL's units.
        steps: number of steps of the longest evaluation.
    """

    matches: list[DeviceId] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    devices: int = 0
    cost: int = 0
    steps: int = 0


def evaluate_on(selector: Selector, devices: Iterable[PooledDevice]) -> Trial:
    """Evaluate the selector on each device.

    Args:
        selector: the compiled expression.
        devices: the devices.
    """
    trial = Trial()
    failures: dict[str, Failure] = {}
    for device in devices:
        trial.devices += 1
        try:
            matches, cost, steps = selector.evaluate(selector_view(device))
        except EvaluationError as error:
            failure = failures.setdefault(str(error), Failure(error, _hint(error, device)))
            failure.devices.append(device.id)
            continue
        trial.cost = max(trial.cost, cost)
        trial.steps = max(trial.steps, steps)
        if matches:
            trial.matches.append(device.id)
    trial.failures = list(failures.values())
    return trial


def _hint(error: EvaluationError, device: PooledDevice) -> str | None:
    """Return a hint for a missing attribute name: its right domain, or the most similar name of the device."""
    missing = _NO_KEY.fullmatch(error.reason)
    names = [name.rpartition("/") for name in (*device.device.attributes, *device.device.capacity)]
    similar = get_close_matches(missing[1], {name for _, _, name in names}, n=1) if missing else []
    if missing is None or not similar:
        return error.hint
    domains = sorted(domain or device.id.driver for domain, _, name in names if name == missing[1])
    return f"the device has it in domain {', '.join(domains)}" if domains else f"the device has {similar[0]}"


def point_at_error(error: CelError, hint: str | None) -> list[str]:
    """Return lines with the error, the expression, and a caret below the position of the error.

    Args:
        error: the error.
        hint: proposed correction; None if no correction is known.
    """
    lines = [f"    {line}" for line in error.expression.splitlines()]
    if error.position is not None:
        line, column = error.position
        lines.insert(line, "    " + " " * (column - 1) + "^")
    return [error.reason, *lines, *([f"  hint: {hint}"] if hint else [])]
