"""Runs the allocator on a world, for `simulate` and `explain`.

Law of this package: it must use the scheduler's own filters and the unmodified allocator, and must not decide
anything itself.

- `settings`: allocator settings from command-line options, and the allocator for a world.
- `filters`: the scheduler's node filters.
- `extended`: extended resources of pods.
- `nodes`: texts about groups of nodes.
- `gates`: the option that is missing if a feature gate is off.
"""

from dradriver.cli.attempt.extended import ExtendedResources, serving_classes, special_claims
from dradriver.cli.attempt.filters import Filters
from dradriver.cli.attempt.gates import find_disabled_gates, gate_hints
from dradriver.cli.attempt.nodes import describe_nodes, hide_node_name
from dradriver.cli.attempt.settings import AttemptSettings, allocator_options, build_placer, settings_options

__all__ = [
    "AttemptSettings",
    "ExtendedResources",
    "Filters",
    "allocator_options",
    "build_placer",
    "describe_nodes",
    "find_disabled_gates",
    "gate_hints",
    "hide_node_name",
    "serving_classes",
    "settings_options",
    "special_claims",
]
