"""Proposes the option that is missing if a feature gate that is off makes devices unusable."""

from collections.abc import Iterable, Iterator

from dradriver.allocator import Features

__all__ = ["find_disabled_gates", "gate_hints"]


def find_disabled_gates(reasons: Iterable[str], features: Features) -> list[str]:
    """Return the feature gates that are off and that reasons name.

    Args:
        reasons: texts of the allocator and of the scheduler's filters.
        features: the enabled features.
    """
    texts = list(reasons)
    return [gate for gate in features.disabled_gates() if any(gate in text for text in texts)]


def gate_hints(gates: Iterable[str]) -> Iterator[str]:
    """Yield a hint with the option that enables the gates; nothing if there are no gates.

    Args:
        gates: names of feature gates that are off.
    """
    if names := sorted(set(gates)):
        are = "is" if len(names) == 1 else "are"
        option = ",".join(f"{name}=true" for name in names)
        yield f"if {' and '.join(names)} {are} on in the cluster, add --feature-gates {option}"
